# SPDX-License-Identifier: BSD-3-Clause
"""How much rounding may move a program's results: runs on the CPU in which every result of every op, and every input,
moves by a few units in the last place, and one in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from torch_atalla.compiler.targets.chip import open_results

from . import unspecified

Run = Callable[[], list[torch.Tensor]]


class Jitter(TorchDispatchMode):
    """Multiplies what each op computes by 1 + u * eps of its dtype, u uniform in [-ulps, ulps]. `joined`: a value of
    16 bits that is widened moves by its own eps, since joined launches may read it before it is rounded. `chip`:
    infinities spread in products as they may in chip code. Every second run with steps of 8 units or more rounds to
    that many units instead: then values meet numbers that a program compares them with, such as whole ones. In these
    runs, and in half of the others with such steps, decisions of rounding fall by chance."""

    def __init__(self, seed: int, ulps: float, joined: bool = False, chip: bool = False):
        super().__init__()
        self.chip = chip
        self.rounds = ulps >= 8 and seed % 2 == 0
        self.decides = ulps >= 8 and seed % 4 != 1
        self.joined = joined
        self.generator = torch.Generator().manual_seed(seed)
        self.ulps = ulps

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
        result = unspecified.call(func, args, kwargs or {}, self.generator, self.decides)
        if self.chip:
            result = open_results.spread(func.overloadpacket, args, result)
        if func is torch.ops.aten._efficientzerotensor.default:  # without memory, which ops under a mode do not bear
            return torch.zeros(result.shape, dtype=result.dtype)
        returns = func._schema.returns
        results = result if isinstance(result, (tuple, list)) else [result]
        for spec, item in zip(returns, results):
            shares = spec.alias_info is not None and not spec.alias_info.is_write
            if isinstance(item, torch.Tensor) and not shares:
                self.move(item, self._eps_of_source(func, args, item))
                if self.decides:
                    self._cancel(item)
                unspecified.vary(func, args, item, self.generator, self.joined)
        return result

    def _eps_of_source(self, func: Any, args: tuple, result: torch.Tensor) -> float:
        if not self.joined or func is not torch.ops.aten._to_copy.default or not is_real_or_complex(result):
            return 0.0
        return torch.finfo(args[0].dtype).eps if is_real_or_complex(args[0]) else 0.0

    def eps(self, dtype: torch.dtype) -> float:
        """Chip code keeps numbers of all dtypes in bfloat16."""
        return torch.finfo(torch.bfloat16 if self.chip else dtype).eps

    def _cancel(self, value: torch.Tensor) -> None:
        """Numbers that are small beside the others may be sums that rounding makes 0: by chance, they become 0."""
        if value.is_floating_point() and value.numel() and not value._is_zerotensor() and 0 not in value.stride():
            reach = (4 if self.chip else 2) * self.eps(value.dtype) * value.double().abs().nan_to_num(0, 0, 0).mean()
            small = value.double().abs() <= reach
            value.masked_fill_(small & (torch.rand(value.shape, generator=self.generator) < 0.5), 0)

    def move(self, value: torch.Tensor, least: float = 0.0) -> None:
        """In place. A value whose elements share memory stays."""
        if not (value.is_floating_point() or value.is_complex()) or value.numel() == 0 or value._is_zerotensor():
            return
        if any(stride == 0 and size > 1 for size, stride in zip(value.shape, value.stride())):
            return
        real = torch.view_as_real(value.detach()) if value.is_complex() else value.detach()
        if real.dtype not in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
            return
        wide = torch.float64 if real.dtype in (torch.float32, torch.float64) else torch.float32
        eps = max(least, self.eps(real.dtype))
        if self.rounds:
            fraction, exponent = torch.frexp(real.to(wide))
            real.copy_(torch.ldexp((fraction / (self.ulps * eps)).round() * (self.ulps * eps), exponent))
            return
        step = (torch.rand(real.shape, generator=self.generator, dtype=wide) * 2 - 1) * self.ulps
        real.copy_(real.to(wide) * (1 + step * eps))


@dataclass
class Bounds:
    """For one result: by how much each element moved, and where it is not determined (it turned into NaN, or an
    integer or truth value changed)."""

    moved: torch.Tensor
    undetermined: torch.Tensor

    def tolerance(self, expected: torch.Tensor, factor: float) -> torch.Tensor:
        """Elementwise; `factor` times what moved, and `factor` roundings of the value itself."""
        values = wide(expected)
        finite = torch.where(torch.isfinite(values), values.abs(), 0)
        eps = torch.finfo(expected.dtype).eps if is_real_or_complex(expected) else 0.0
        spread = self.moved.mean() if self.moved.numel() else 0.0
        return factor * (self.moved + spread + eps * finite)


def is_real_or_complex(value: torch.Tensor) -> bool:
    return value.is_floating_point() or value.is_complex()


def wide(value: torch.Tensor) -> torch.Tensor:
    value = value.detach()
    if value.is_complex():
        return torch.view_as_real(value.resolve_conj()).double()
    return value.double()


def measure(reference: Sequence[torch.Tensor], runs: Sequence[Sequence[torch.Tensor]]) -> list[Bounds]:
    found = []
    for k, expected in enumerate(reference):
        base = wide(expected)
        moved, undetermined = torch.zeros_like(base), torch.zeros_like(base, dtype=torch.bool)
        for results in runs:
            if k >= len(results) or results[k].shape != expected.shape:
                undetermined |= True
                continue
            other = wide(results[k])
            same = (base == other) | (base.isnan() & other.isnan())
            finite = torch.isfinite(base) & torch.isfinite(other)
            undetermined |= ~same & (~finite if is_real_or_complex(expected) else torch.ones_like(finite))
            moved = torch.maximum(moved, torch.where(finite, (base - other).abs(), 0))
        found.append(Bounds(moved, undetermined))
    return found


def jittered(
    work: Callable[[Any, Any], list[torch.Tensor]],
    build: Callable[[], tuple],
    seed: int,
    ulps: float,
    joined: bool = False,
    chip: bool = False,
) -> list:
    """`work(module, args)` with everything moved. `build` gives both anew."""
    module, args = build()
    mode = Jitter(seed, ulps, joined, chip)
    with torch.no_grad():
        args = tree_map(lambda x: x.clone() if isinstance(x, torch.Tensor) and 0 in x.stride() else x, args)
        for value in (*module.parameters(), *module.buffers(), *tree_leaves(args)):
            if isinstance(value, torch.Tensor):
                mode.move(value)
    with mode, unspecified.plain_control_flow():  # of which a mode has no rule
        return work(module, args)


def in_float64(work: Callable[[Any, Any], list[torch.Tensor]], build: Callable[[], tuple]) -> list | None:
    """The same in float64; None where the program insists on other dtypes."""
    module, args = build()
    try:
        args = tree_map(lambda x: x.double() if isinstance(x, torch.Tensor) and x.is_floating_point() else x, args)
        return work(module.double(), args)
    except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError):
        return None
