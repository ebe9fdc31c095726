# SPDX-License-Identifier: BSD-3-Clause
"""The outcome of a call, and how two outcomes differ: results, written arguments, gradients, random state, errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._pytree import tree_flatten

from tools.graph_fuzz import compare
from torch_atalla.device import namespace as atalla
from torch_atalla.testing import tensors


@dataclass
class Outcome:
    args: list[Any]
    results: Any = None
    error: Exception | None = None
    grads: list[torch.Tensor | None] = field(default_factory=list)
    random: tuple[torch.Tensor, ...] = ()
    device: int = 0  # the current one afterwards


def run(call: Callable[..., Any], args: list[Any], seed: int, backward: bool = True) -> Outcome:
    """Call a function at a random state, and its backward pass if its results have one."""
    torch.manual_seed(seed)
    outcome = Outcome(args)
    try:
        outcome.results = call(*args)
        inputs = [arg for arg in tensors(args) if arg.requires_grad]
        ends = [item for item in tensors(outcome.results) if item.requires_grad]
        if backward and inputs and ends and torch.is_grad_enabled():
            total = torch.stack([(item.abs() * item.abs()).float().sum() for item in ends]).sum()
            outcome.grads = list(torch.autograd.grad(total, inputs, allow_unused=True))
    except Exception as error:
        outcome.error = error
    outcome.random = (torch.get_rng_state(), *(atalla.get_rng_state(i) for i in range(2)))
    outcome.device = atalla.current_device()
    return outcome


# Eager mode refuses such a write in place. AOTAutograd makes it a write out of place, for the CPU as well.
_IN_PLACE = "refer to a single memory location"


def difference(found: Outcome, expected: Outcome) -> tuple[str, str] | None:
    """The first difference: (category, text)."""
    if expected.error is not None:
        if found.error is None and _IN_PLACE not in str(expected.error):
            return "accepted", f"eager mode raises {_said(expected.error)}"
        return None
    if found.error is not None:
        return "error", _said(found.error)
    if found.device != expected.device:
        return "device", f"the current device is {found.device}, expected {expected.device}"
    first, spec_found = tree_flatten(found.results)
    second, spec_expected = tree_flatten(expected.results)
    if spec_found != spec_expected:
        return "structure", f"{spec_found}, expected {spec_expected}"
    for a, b in zip(first, second):
        if not isinstance(b, torch.Tensor) and (type(a), a) != (type(b), b):
            return "value", f"{a!r}, expected {b!r}"
    given = tensors(expected.args)
    outputs, wanted = tensors(found.results), tensors(expected.results)
    for number, (a, b) in enumerate(zip(outputs, wanted)):
        if (problem := facts(a, b)) is not None and not (
            problem.startswith("stride") and any(map(_loses_strides, given))
        ):
            return "facts", f"result {number} of shape {list(b.shape)}: {problem}"
    if sharing([*tensors(found.args), *outputs]) != sharing([*given, *wanted]):
        return "aliasing", "results share other memory with arguments or each other"
    with torch.no_grad():
        if (text := values(_plain(outputs), _plain(wanted))) is not None:
            return "values", text
        if (text := compare.bits(_plain(tensors(found.args)), _plain(given))) is not None:
            return "arguments", f"written values: {text}"
        if (text := gradients(found.grads, expected.grads)) is not None:
            return "gradients", text
    if not all(torch.equal(a, b) for a, b in zip(found.random, expected.random)):
        return "random state", "the states of the generators differ afterwards"
    return None


def _loses_strides(x: torch.Tensor) -> bool:
    """Whether PyTorch computes with other strides when it traces: its meta functions convert operands of half precision
    to float32, and an expanded one becomes contiguous. Inductor's results have such strides, too."""
    return x.dtype in (torch.float16, torch.bfloat16) and 0 in x.stride()


def facts(a: torch.Tensor, b: torch.Tensor) -> str | None:
    for name, of in _FACTS.items():
        # Of no elements, eager dropout gives its argument, and Inductor a new tensor without gradient.
        if of(a) != of(b) and not (name in _OF_ELEMENTS and b.numel() == 0):
            return f"{name} is {of(a)}, expected {of(b)}"
    return None


_FACTS: dict[str, Callable[[torch.Tensor], Any]] = {
    "dtype": lambda x: x.dtype,
    "device": lambda x: x.device,
    "shape": lambda x: tuple(x.shape),
    "stride": lambda x: [step for step, size in zip(x.stride(), x.shape) if size != 1],  # others address nothing
    "storage_offset": lambda x: x.storage_offset(),
    "requires_grad": lambda x: x.requires_grad,
    "is_inference": lambda x: x.is_inference(),
    "is_conj": lambda x: x.is_conj(),
    "is_neg": lambda x: x.is_neg(),
}


_OF_ELEMENTS = ("stride", "storage_offset", "requires_grad")  # of no elements they say nothing


def sharing(values: Sequence[torch.Tensor]) -> list[int]:
    """For each tensor, the first one that has the same storage. Tensors without elements share nothing."""
    seen: dict[int, int] = {}
    return [
        seen.setdefault(value.untyped_storage()._cdata, k) if value.numel() else k for k, value in enumerate(values)
    ]


def values(found: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> str | None:
    """Floating-point results may differ by roundings: for dynamic sizes, a program reads a copy of a strided input, and
    the kernel adds elements of the copy in another order."""
    exact = [k for k, item in enumerate(expected) if not (item.is_floating_point() or item.is_complex())]
    if (text := compare.bits([found[k] for k in exact], [expected[k] for k in exact])) is not None:
        return text
    for number, (a, b) in enumerate(zip(found, expected)):
        if number not in exact and (text := _rounding(a, b)) is not None:
            return f"result {number} {text}"
    return None


def gradients(found: Sequence[torch.Tensor | None], expected: Sequence[torch.Tensor | None]) -> str | None:
    """Gradients may differ by the order of sums (docs/guides/compile.md)."""
    if [a is None for a in found] != [b is None for b in expected]:
        return "other arguments have gradients"
    for a, b in zip(found, expected):
        if a is None or b is None:
            continue
        if (problem := facts(a, b)) is not None and "stride" not in problem:
            return problem
        if (problem := _rounding(a, b)) is not None:
            return problem
    return None


def _rounding(found: torch.Tensor, expected: torch.Tensor) -> str | None:
    """The difference, if it is larger than that of a few roundings."""
    first, second = found.resolve_conj().cpu(), expected.resolve_conj().cpu()
    eps = torch.finfo(expected.dtype).eps
    scale = second.abs().nan_to_num(0.0, 0.0).max().item() if second.numel() else 0.0
    # Terms of a sum that cancel are larger than the result: a gradient of softmax, summed over an expanded dimension.
    if torch.allclose(first, second, rtol=16 * eps, atol=16 * eps * scale, equal_nan=True):
        return None
    return f"differs by up to {(first - second).abs().max().item():.3g} of {scale:.3g}"


def _plain(values: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return [value.detach().resolve_conj().resolve_neg() for value in values]


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
