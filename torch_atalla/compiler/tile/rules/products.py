# SPDX-License-Identifier: BSD-3-Clause
"""Matrix products."""

from __future__ import annotations

from ..ir import Op, Type
from ..lower import HALF, Lowering, Tile, rule
from ..steps import FLOAT8


@rule("tt.dot")
def _dot(low: Lowering, op: Op) -> list[Tile]:
    a, b, acc = map(low.of, op.operands)
    kind = op.results[0].type
    element = "f32" if kind.element in HALF else kind.element
    a, b = (low.full(_operand(low, op, t, element)) for t in (a, b))
    acc = low.full(low.convert(acc, element))
    *batch, m, k = a.type.dims
    n = b.type.dims[-1]
    into = low.preferred.get(op.results[0]) if element == kind.element else None
    out = into if into is not None else low.new(kind.with_element(element))
    values = [out.id, a.id, b.id, acc.id]
    low.emit("dot", [*values, Type("i1", tuple(batch)).count, m, n, k], values)
    return [low.convert(out, kind.element)]


def _operand(low: Lowering, op: Op, tile: Tile, element: str) -> Tile:
    source = tile.type.element
    if source == element or (element == "f32" and (source in HALF or source in FLOAT8)):
        return low.convert(tile, element)
    if element == "i32" and source == "i8":
        return low.convert(tile, element)
    raise op.fail(f"operands of {source} with a result of {element}")
