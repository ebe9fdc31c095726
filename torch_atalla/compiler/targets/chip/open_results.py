# SPDX-License-Identifier: BSD-3-Clause
"""Results that are not determined, of which the runs of noise.py take one by chance: where PyTorch or C++ leaves a
result open, where rounding decides, and where the chip lets infinities spread (docs/concepts/isa-codegen.md, Limits).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, nan
from typing import Any

import torch

from torch_atalla.isa.geometry import LANES

Known = Mapping[str, tuple[torch.Tensor, torch.Tensor]]  # node -> the exact values, and how far they may move
aten = torch.ops.aten

# Of NaN the CPU's vectorised loop gives something else than the rest of it, or what was in a register.
OPEN_FOR_NAN = {
    getattr(aten, name)
    for name in (
        *("logit", "logit_backward", "softshrink", "softshrink_backward", "hardshrink", "hardshrink_backward"),
        *("hardtanh_backward", "hardswish_backward", "elu_backward"),
        *(f"special_{shifted}chebyshev_polynomial_{kind}" for shifted in ("", "shifted_") for kind in "tuvw"),
        *(f"special_{name}" for name in ("hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l")),
        "special_legendre_polynomial_p",
    )
}
_EQUALITY = (aten.eq.Tensor, aten.eq.Scalar, aten.ne.Tensor, aten.ne.Scalar)
# The places of the two matrices among the arguments.
_PRODUCTS = {aten.mm: 0, aten.bmm: 0, aten.matmul: 0, aten.addmm: 1, aten.baddbmm: 1, aten.addbmm: 1}


_RESAMPLING = {
    *(aten.upsample_linear1d, aten.upsample_bilinear2d, aten.upsample_trilinear3d, aten.upsample_bicubic2d),
    *(aten._upsample_bilinear2d_aa, aten._upsample_bicubic2d_aa),
}


@dataclass(frozen=True)
class Rounding:
    """What rounding decides: by node, where it may make a number 0 (a sum that cancels), and how far apart numbers may
    be that it makes equal (infinite where the exact ones are not further apart)."""

    zero: dict[str, torch.Tensor]
    equal: dict[str, torch.Tensor]


def rounding(graph: torch.fx.Graph, known: Known) -> Rounding:
    zero = {name: value.abs() <= reach for name, (value, reach) in known.items() if value.is_floating_point()}
    return Rounding(zero, {node.name: _reach(node, known) for node in graph.nodes if node.target in _EQUALITY})


def _reach(node: torch.fx.Node, known: Known) -> torch.Tensor:
    (a, first), (b, second) = (
        known[x.name] if isinstance(x, torch.fx.Node) else (torch.tensor(x), 0.0) for x in node.args[:2]
    )
    if not (a.is_floating_point() or b.is_floating_point()):
        return torch.full((), -1.0, dtype=torch.float64)
    reach = first + second + torch.maximum(a.double().abs(), b.double().abs()) * 2.0**-8
    return torch.where((a.double() - b.double()).abs() <= reach, inf, reach)


def vary(node: torch.fx.Node, args: Any, result: Any, generator: torch.Generator, rounding: Rounding | None) -> Any:
    """The result of a node, or another one that is as right."""
    target: Any = node.target
    packet = getattr(target, "overloadpacket", None)
    if rounding is not None and node.name in rounding.equal:
        first, second = (torch.as_tensor(x).double() for x in args[:2])
        near = (first - second).abs() <= rounding.equal[node.name]
        return torch.where(near, _any_of((False, True), result, generator), result)
    if target is aten._to_copy.default:
        result = _converted(args[0], result, generator)
    if packet in OPEN_FOR_NAN:
        for operand in args:
            if isinstance(operand, torch.Tensor):
                result = torch.where(operand.isnan(), _any_of((nan, 0.0, 1.0), result, generator), result)
    result = spread(packet, args, result)
    if rounding is not None and node.name in rounding.zero and isinstance(result, torch.Tensor):
        result = torch.where(rounding.zero[node.name] & (_any_of((0, 1, 2, 3), result, generator) == 0), 0, result)
    return result


def spread(op: Any, args: Any, result: Any) -> Any:
    """The result of a product or convolution, with NaN where the chip's may be NaN since operands are not finite."""
    if op in _PRODUCTS:
        return _spread_product(args[_PRODUCTS[op] + 1], result)
    if op is aten.scaled_dot_product_attention:
        return _spread_columns(args[2], _spread_scores(args[0], args[1], result))
    if op is aten._scaled_dot_product_flash_attention_for_cpu:
        return (_spread_columns(args[2], _spread_scores(args[0], args[1], result[0])), *result[1:])
    if op in _RESAMPLING:
        return _spread_taps(op, args, result)
    if op is aten.convolution:
        return _spread_windows(args[0], args[1], result)
    return result


def _any_of(values: tuple, like: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    which = torch.randint(len(values), like.shape, generator=generator)
    return torch.tensor(values, dtype=like.dtype)[which]


def _converted(source: torch.Tensor, value: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """C++ leaves open which integer a NaN becomes, or a number out of range."""
    if not source.is_floating_point() or value.is_floating_point() or value.dtype is torch.bool:
        return value
    limits = torch.iinfo(value.dtype)
    inside = (source >= limits.min) & (source <= limits.max)
    return torch.where(inside, value, _any_of((0, 1), value, generator))


def _spread_taps(op: Any, args: Any, result: torch.Tensor) -> torch.Tensor:
    """Whether a tap at the end of a filter has the weight 0 or what rounding left of it decides what an infinity gives,
    and infinities of opposite weights are NaN or not by their order."""
    special = ~args[0].isfinite()
    if not bool(special.any()):
        return result
    for dim in range(2, special.ndim):  # and the places beside them
        special = special | special.roll(1, dim) | special.roll(-1, dim)
    reached = op(torch.where(special, nan, 0.0).to(args[0].dtype), *args[1:]).isnan()
    return torch.where(reached, nan, result)


def _spread_product(matrix: torch.Tensor, result: torch.Tensor) -> torch.Tensor:
    """A second matrix with rows of neighbours is transposed by the array."""
    if matrix.ndim < 2 or matrix.stride(-1) != 1 and matrix.stride(-2) == 1:
        return result
    if matrix.ndim > result.ndim:  # addbmm
        matrix = torch.where(matrix.isfinite().all(0), 0.0, nan)
    return _spread_columns(matrix, result)


def _spread_scores(q: torch.Tensor, k: torch.Tensor, result: torch.Tensor) -> torch.Tensor:
    """A row whose scores are all minus infinity, and not for a mask, is NaN or 0."""
    known = q.isfinite().all(-1, keepdim=True) & k.isfinite().all()
    return torch.where(known, result, nan)


def _spread_columns(matrix: torch.Tensor, result: torch.Tensor) -> torch.Tensor:
    """A column of `matrix` that is not finite makes the other columns of a transposed tile NaN."""
    bad = ~matrix.isfinite().all(-2)
    columns = bad.shape[-1]
    if not bool(bad.any()) or result.ndim < 2 or result.shape[-1] != columns:
        return result
    tiles = torch.nn.functional.pad(bad, (0, -columns % LANES)).unflatten(-1, (-1, LANES)).any(-1)
    bad = tiles.repeat_interleave(LANES, -1)[..., :columns].unsqueeze(-2)
    if bad.ndim == result.ndim > 2 and bad.shape[-3] > 1:  # attention: a head of values serves several of queries
        bad = bad.repeat_interleave(result.shape[-3] // bad.shape[-3], -3)
    return torch.where(bad, nan, result)


def _spread_windows(image: torch.Tensor, weight: torch.Tensor, result: torch.Tensor) -> torch.Tensor:
    """Of a convolution whose rows of taps end within a row of the scratchpad."""
    row = weight.shape[1] * weight.shape[-1]
    if row <= LANES or row % LANES == 0:
        return result
    bad = ~image.isfinite().flatten(1).all(1)
    return torch.where(bad.view(-1, *[1] * (result.ndim - 1)), nan, result)
