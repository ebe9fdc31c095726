# SPDX-License-Identifier: BSD-3-Clause
"""Ops whose values cannot be compared with the CPU's: drawn at random, not initialised, or unique only up to a factor.

Their results are held to what any right answer has: the CPU's shapes, dtypes and strides; the same values again after
the same seed; and the support of the distribution (a dropout gives zero or the scaled input, a Bernoulli draw 0 or 1).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

UNINITIALISED = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}
LOW_RANK = {"svd_lowrank", "pca_lowrank"}


def op_name(op: Any) -> str:
    """The OpInfo's full name ("sum", "nn.functional.gelu", "std.unbiased")."""
    return op.full_name if hasattr(op, "full_name") else op.name


def argument(sample: Any, position: int, name: str, default: Any = None) -> Any:
    return sample.args[position] if len(sample.args) > position else sample.kwargs.get(name, default)


def _ones_or_zeros(value: torch.Tensor, sample: Any) -> bool:
    return bool(((value == 0) | (value == 1)).all())


def _dropped(value: torch.Tensor, sample: Any) -> bool:
    """Zero or the input divided by the chance to stay."""
    p = argument(sample, 0, "p", 0.5)
    if not argument(sample, 1, "training", True):
        return torch.equal(value, sample.input.detach())
    scaled = sample.input.detach().double() / max(1 - p, 1e-30)
    close = torch.isclose(value.double(), scaled, rtol=2e-2, atol=1e-6)
    return bool(((value == 0) | close).all())


def _uniform(value: torch.Tensor, sample: Any) -> bool:
    if value.is_complex():
        return True
    low, high = argument(sample, 0, "from", 0.0), argument(sample, 1, "to", 1.0)
    return bool(((value >= low) & (value <= high)).all())


def _categories(value: torch.Tensor, sample: Any) -> bool:
    return bool(((value >= 0) & (value < sample.input.shape[-1])).all())


def _taken_from_input(value: torch.Tensor, sample: Any) -> bool:
    return bool(torch.isin(value, sample.input.detach()).all())


def _whole(value: torch.Tensor, sample: Any) -> bool:
    return value.is_complex() or bool((value == value.trunc()).all())


def _positive(value: torch.Tensor, sample: Any) -> bool:
    return bool((value >= 0).all())


def _leaked(value: torch.Tensor, sample: Any) -> bool:
    """The sign of the input; a negative number may vanish in the rounding, and an infinite one times a slope of zero
    is no number."""
    x = sample.input.detach()
    vanished = (x < 0) & (value == 0)
    return bool(((value.sign() == x.sign()) | vanished | (value.isnan() & ~x.isfinite())).all())


def _anything(value: torch.Tensor, sample: Any) -> bool:
    return True


# OpInfo -> whether a result can have been drawn from the sample's distribution.
SUPPORT: dict[str, Callable[[torch.Tensor, Any], bool]] = {
    "bernoulli": _ones_or_zeros,
    "cauchy": _anything,
    "exponential": _positive,
    "geometric": lambda value, sample: _positive(value, sample) and _whole(value, sample),
    "log_normal": _positive,
    "multinomial": _categories,
    "nn.functional.alpha_dropout": _anything,
    "nn.functional.dropout": _dropped,
    "nn.functional.dropout2d": _dropped,
    "nn.functional.dropout3d": _dropped,
    "nn.functional.feature_alpha_dropout.with_train": _anything,
    "nn.functional.feature_alpha_dropout.without_train": _anything,
    "nn.functional.fractional_max_pool2d": _taken_from_input,
    "nn.functional.fractional_max_pool3d": _taken_from_input,
    "nn.functional.rrelu": _leaked,
    "normal": _anything,
    "normal.in_place": _anything,
    "normal.number_mean": _anything,
    "rand_like": _anything,  # the OpInfo calls randn_like
    "randint": _whole,
    "randint_like": _whole,
    "randn": _anything,
    "randn_like": _anything,
    "uniform": _uniform,
}
# What they give beside the values of SUPPORT (indices of a pooling) is only compared in shape.
FIRST_RESULT_ONLY = {"nn.functional.fractional_max_pool2d", "nn.functional.fractional_max_pool3d"}


def is_random(op: Any, sample: Any) -> bool:
    """Whether the sample draws random numbers, also by a dropout inside."""
    name = op_name(op)
    if name == "nn.functional.multi_head_attention_forward":
        return sample.args[9] > 0  # dropout_p
    return name in SUPPORT or bool(sample.kwargs.get("dropout_p") or sample.kwargs.get("dropout"))


def incomparable(op: Any, sample: Any) -> bool:
    return op_name(op) in UNINITIALISED | LOW_RANK or is_random(op, sample)


def tensors(value: Any) -> list[torch.Tensor]:
    """Those of a nested value, in order."""
    return [x for x in tree_leaves(value) if isinstance(x, torch.Tensor)]


def check_properties(op: Any, sample: Any, run: Callable[[], Any]) -> None:
    """`run` gives the device's result of the sample. Raises AssertionError where it cannot be right."""
    name = op_name(op)
    torch.manual_seed(0)
    expected = tensors(op(sample.input, *sample.args, **sample.kwargs))
    torch.manual_seed(0)
    actual = tensors(run())
    assert len(actual) == len(expected), f"{len(actual)} results, the CPU gives {len(expected)}"
    for mine, theirs in zip(actual, expected):
        assert (mine.shape, mine.dtype) == (theirs.shape, theirs.dtype), (
            f"{tuple(mine.shape)} {mine.dtype}, the CPU gives {tuple(theirs.shape)} {theirs.dtype}"
        )
    if name in LOW_RANK:
        _check_approximation(sample, [x.detach().cpu() for x in actual], center=name == "pca_lowrank")
        return
    for mine, theirs in zip(actual, expected):
        assert mine.stride() == theirs.stride(), f"strides {mine.stride()}, the CPU gives {theirs.stride()}"
    if name in UNINITIALISED:
        return
    torch.manual_seed(0)
    for mine, again in zip(actual, tensors(run())):
        torch.testing.assert_close(
            mine.cpu(), again.cpu(), rtol=0, atol=0, equal_nan=True, msg="same seed, other values"
        )
    inside = SUPPORT.get(name, _anything)
    for mine in actual[:1] if name in FIRST_RESULT_ONLY else actual:
        assert inside(mine.detach().cpu(), sample), "a value outside the support of the distribution"


def _check_approximation(sample: Any, factors: list[torch.Tensor], center: bool) -> None:
    """Orthonormal factors whose product is about as near as the best one of that rank: the sketch is random."""
    u, s, v = factors
    a = (sample.input @ sample.args[0].mT).detach()
    if sample.kwargs.get("M") is not None:
        a = a - sample.kwargs["M"].detach()
    if center and sample.kwargs.get("center", True):
        a = a - a.mean(-2, keepdim=True)
    small = 1e-3 if a.dtype in (torch.float32, torch.complex64) else 1e-8
    best = torch.linalg.svdvals(a)[..., s.shape[-1] :].square().sum(-1).sqrt()
    error = torch.linalg.matrix_norm(a - (u * s.unsqueeze(-2)) @ v.mH)
    assert bool((error <= 2 * best + small * torch.linalg.matrix_norm(a)).all()), "a poor approximation"
    for factor in (u, v):
        identity = torch.eye(factor.shape[-1], dtype=a.dtype).expand(*factor.shape[:-2], -1, -1)
        torch.testing.assert_close(factor.mH @ factor, identity, rtol=0, atol=small, msg="factors not orthonormal")
