# SPDX-License-Identifier: BSD-3-Clause
"""Matrix products."""

from __future__ import annotations

from ...program.ir import contiguous_strides
from ..ir import Op, Type
from ..lower import HALF, Lowering, Tile, rule
from ..step_types import Dot, PutView
from ..steps import FLOAT8
from .expressions import Expr

FORMATS = {"e4m3": "f8E4M3FN", "e5m2": "f8E5M2", "bf16": "bf16", "fp16": "f16"}  # of scaled operands, and e2m1


rule("tt.dot")(lambda low, op: _product(low, op, *map(low.of, op.operands)))


@rule("tt.dot_scaled")
def _scaled_dot(low: Lowering, op: Op) -> list[Tile]:
    """Operands of narrow formats, of which each group along k has a scale; factors are float32."""
    words = op.attributes["words"]
    formats = words[words.index("lhs") + 1], words[words.index("rhs") + 1]
    remaining = [low.of(v) for v in op.operands]
    factors = []
    for side, (name, scaled) in enumerate(zip(formats, op.attributes["scaled"], strict=True)):
        tile = remaining.pop(0)
        along_k = op.attributes.get("rhs_k_pack" if side else "lhs_k_pack", True)
        axis = (-1 if along_k else -2) if side == 0 else (-2 if along_k else -1)
        factor = _four_bits(low, tile, axis) if name == "e2m1" else low.widened(low.full(tile))
        if name != "e2m1" and FORMATS.get(name) != tile.type.element:
            raise op.fail(f"an operand of the format {name} in {tile.type.element}")
        factors.append(_scaled(low, op, factor, remaining.pop(0), side) if scaled else factor)
    return _product(low, op, factors[0], factors[1], remaining[0])


def _four_bits(low: Lowering, packed: Tile, axis: int) -> Tile:
    """float4 (e2m1) numbers, two in a byte along `axis`: their bits are those of float8 e4m3fn over 64."""
    packed = low.full(packed)
    dims = list(packed.type.dims)
    axis += len(dims)
    sizes = [n * 2 if d == axis else n for d, n in enumerate(dims)]
    out = low.new(Type("i8", tuple(sizes)))
    strides = [step * 2 if d == axis else step for d, step in enumerate(contiguous_strides(sizes))]
    for k in range(2):
        bits = Expr(low, packed).op("shr_unsigned", 4) if k else Expr(low, packed)
        part = ((bits & 8) << 4) | ((bits & 7) << 2)
        low.emit(PutView(out.id, part.tile.id, k * contiguous_strides(sizes)[axis], dims, strides))
    return (Expr(low, Tile(out.id, Type("f8E4M3FN", out.type.shape))).to("f32") * 64.0).tile


def _scaled(low: Lowering, op: Op, factor: Tile, scale: Tile, side: int) -> Tile:
    """The factor times its scales: [..., m, groups] of the left one, [..., n, groups] of the right one."""
    scale = low.full(scale)
    if scale.type.element == "i8":  # e8m0: an exponent
        bits = Expr(low, scale).unsigned("i32")
        wide = bits.flag("eq", 255).where(float("nan"), (bits << 23).bits("f32")).tile
    else:
        wide = low.widened(scale)
    dims, groups = factor.type.dims, scale.type.dims[-1]
    k = dims[-1] if side == 0 else dims[-2]
    if k % groups:
        raise op.fail(f"{groups} scales for {k} elements")
    strides = contiguous_strides(scale.type.dims)
    batch, rows = [list(pair) for pair in zip(dims[:-2], strides[:-2], strict=True)], [scale.type.dims[-2], strides[-2]]
    along = [[groups, 1], [k // groups, 0]]
    order = [*batch, *([rows, *along] if side == 0 else [*along, rows])]
    spread = low.view(wide, Type("f32", dims), [n for n, _ in order], [step for _, step in order])
    return low.binary("mul", low.full(factor), low.full(spread))


def _product(low: Lowering, op: Op, a: Tile, b: Tile, acc: Tile) -> list[Tile]:
    kind = op.results[0].type
    element = "f32" if kind.element in HALF else kind.element
    a, b = (low.full(_operand(low, op, t, element)) for t in (a, b))
    acc = low.full(low.convert(acc, element))
    *batch, m, k = a.type.dims
    n = b.type.dims[-1]
    into = low.preferred.get(op.results[0]) if element == kind.element else None
    out = into if into is not None else low.new(kind.with_element(element))
    low.emit(Dot(out.id, a.id, b.id, acc.id, Type("i1", tuple(batch)).count, m, n, k))
    return [low.convert(out, kind.element)]


def _operand(low: Lowering, op: Op, tile: Tile, element: str) -> Tile:
    source = tile.type.element
    if source == element or (element == "f32" and (source in HALF or source in FLOAT8)):
        return low.convert(tile, element)
    if element == "i32" and source == "i8":
        return low.convert(tile, element)
    raise op.fail(f"operands of {source} with a result of {element}")
