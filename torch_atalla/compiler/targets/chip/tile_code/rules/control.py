# SPDX-License-Identifier: BSD-3-Clause
"""Loops and branches, whose values are registers and tiles of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .....tile.ir import Op
from ...scalar_core.values import Value
from .. import prefetch, scalars
from ..generator import Generator, rule
from ..values import Affine, Buffer, Element, Lazy, Mask, Uniform, Wide


def _own(g: Generator, op: Op, element: str, x: Any) -> Any:
    """A value that the loop changes, with its first value. element: of its type."""
    if element == "i64" and not isinstance(x, Affine):
        x = scalars.widened(g.core, x)
    if isinstance(x, Wide):
        return Wide(g.variable(x.low), g.variable(x.high))
    if isinstance(x, Affine):
        return Affine(x.shape, g.variable(x.base), x.terms)
    if isinstance(x, Mask | Element) or element == "i1" and isinstance(x, Lazy | Uniform | Buffer):
        raise op.fail("a tile of truth values or integers that a loop or branch gives; expected numbers or addresses")
    if isinstance(x, Lazy | Uniform | Buffer):
        lane = g.lane_of(x)
        return _copy(g, x, g.new_buffer(x.shape, lane, 1, is_rounded=False))
    return g.variable(x, "f" if element in ("f32", "bf16") else "")


def _copy(g: Generator, x: Any, into: Buffer) -> Buffer:
    return g.materialise(x, into.lane, into)


def _same_terms(a: Affine, b: Affine) -> bool:
    return a.terms.keys() == b.terms.keys() and all(
        a.terms[d].wrap is b.terms[d].wrap
        and (a.terms[d].step is b.terms[d].step or _equal(a.terms[d].step, b.terms[d].step))
        for d in a.terms
    )


def _equal(a: Any, b: Any) -> bool:
    return isinstance(a, int) and isinstance(b, int) and a == b


def _assign(g: Generator, op: Op, own: Sequence[Any], given: Sequence[Any]) -> None:
    """The next values, all at once."""
    moves: list[tuple[Value, Any]] = []
    tiles: list[tuple[Buffer, Any]] = []
    for mine, x in zip(own, given, strict=True):
        if isinstance(mine, Wide):
            wide = scalars.widened(g.core, x)
            moves += [(mine.low, wide.low), (mine.high, wide.high)]  # type: ignore[list-item]
        elif isinstance(mine, Affine):
            if not isinstance(x, Affine) or not _same_terms(mine, x):
                raise op.fail("addresses or integers whose steps change in a loop")
            moves.append((mine.base, x.base))  # type: ignore[arg-type]
        elif isinstance(mine, Buffer):
            if isinstance(x, Buffer) and (x.sid, x.first) == (mine.sid, mine.first):
                continue
            tiles.append((mine, x))
        else:
            moves.append((mine, x))
    _assign_tiles(g, tiles)
    if len(moves) > 1:
        moves = [(mine, g.variable(x, mine.kind)) for mine, x in moves]
    for mine, x in moves:
        mine.set(x)


def _assign_tiles(g: Generator, tiles: list[tuple[Buffer, Any]]) -> None:
    """A tile that is computed from another one of the loop's is computed before that one changes."""
    targets = {target: n for n, (target, _) in enumerate(tiles)}
    ready = []
    for n, (target, x) in enumerate(tiles):
        reads = {targets[leaf] for leaf in _leaves(x) if leaf in targets}
        in_place = not (reads - {n}) and not (n in reads and _moves(g, x, target))
        ready.append((target, x if in_place else _copy(g, x, g.new_buffer(x.shape, target.lane, 1, is_rounded=False))))
    for target, x in ready:
        _copy(g, x, target)


def _leaves(x: Any) -> list[Buffer]:
    if isinstance(x, Buffer):
        return [x]
    return [leaf for argument in x.arguments for leaf in _leaves(argument)] if isinstance(x, Lazy) else []


def _moves(g: Generator, x: Any, target: Buffer) -> bool:
    """Whether a vector of x depends on other vectors of the target."""
    if x is target:
        return False
    if not isinstance(x, Lazy):
        return False
    if x.name in ("expand", "broadcast", "transpose"):
        return target in _leaves(x)
    return any(_moves(g, argument, target) for argument in x.arguments)


@rule("scf.for")
def _for(g: Generator, op: Op) -> list[Any]:
    low, high, step, *first = (g.of(v) for v in op.operands)
    body = op.regions[0].entry
    core = g.core
    own = [_own(g, op, v.type.element, x) for v, x in zip(op.operands[3:], first, strict=True)]
    if isinstance(low, Wide) or isinstance(high, Wide) or isinstance(step, Wide):
        low, high, step = (x.low if isinstance(x, Wide) else x for x in (low, high, step))
    index = g.variable(low)
    ends = op.regions[0].entry.ops[-1].operands if own else []
    prefetch.plan(
        g,
        op.regions[0],
        dict(zip(body.arguments[1:], ends, strict=True)),
        lambda: scalars.less(core, scalars.add(core, index, step), high),
        (body.arguments[0], lambda: scalars.add(core, index, step)),
        lambda: g.program_ids,
    )
    with core.repeat_while(lambda: core.value(scalars.less(core, index, high))), g.inside(body):
        g.values[body.arguments[0]] = index
        g.values.update(zip(body.arguments[1:], own, strict=True))
        end = g.region(op.regions[0], op)
        _assign(g, op, own, [g.of(v) for v in end.operands])
        index.set(scalars.add(core, index, step))
    return own


@rule("scf.while")
def _while(g: Generator, op: Op) -> list[Any]:
    before, after = (region.entry for region in op.regions)
    own = [_own(g, op, v.type.element, g.of(v)) for v in op.operands]
    passed = [g.variable(0, "f" if v.type.element in ("f32", "bf16") else "") for v in op.results]
    if any(v.type.shape is not None or v.type.element == "i64" for v in op.results):
        raise op.fail("a tile or an integer of 64 bits that a `while` gives")

    def condition() -> Value:
        with g.inside(before):
            g.values.update(zip(before.arguments, own, strict=True))
            end = g.region(op.regions[0], op)
            holds, *given = (g.of(v) for v in end.operands)
            for mine, x in zip(passed, given, strict=True):
                mine.set(x)
            return g.core.value(holds)

    with g.core.repeat_while(condition), g.inside(after):
        g.values.update(zip(after.arguments, passed, strict=True))
        end = g.region(op.regions[1], op)
        _assign(g, op, own, [g.of(v) for v in end.operands])
    return passed


@rule("scf.if")
def _if(g: Generator, op: Op) -> list[Any]:
    if any(v.type.element == "i64" and v.type.shape is None for v in op.results):
        raise op.fail("an integer of 64 bits that a branch gives")
    taken = g.core.variable(g.core.nonzero(g.core.value(g.of(op.operands[0]))))
    # Registers are set before the branches, so that they live behind them. The first branch says which layouts tiles
    # have.
    own: list[Any] = [None if v.type.shape else g.variable(0, _kind(v.type.element)) for v in op.results]
    bases = [g.variable(0) for _ in op.results]
    for region, holds in zip(op.regions, (taken, ~taken)):
        with g.core.when(holds), g.inside(region.entry):
            end = g.region(region, op)
            for n, value in enumerate(end.operands):
                own[n] = _branch_result(g, op, own[n], g.of(value), bases[n], op.results[n].type.element)
    return own


def _kind(element: str) -> str:
    return "f" if element in ("f32", "bf16") else ""


def _branch_result(g: Generator, op: Op, mine: Any, x: Any, base: Value, element: str) -> Any:
    if mine is None:
        if isinstance(x, Affine):
            base.set(x.base)
            return Affine(x.shape, base, x.terms)
        if not isinstance(x, Lazy | Uniform | Buffer) or element == "i1":
            raise op.fail("a tile of truth values or integers that a branch gives; expected numbers or addresses")
        return _copy(g, x, g.new_buffer(x.shape, g.lane_of(x), 1, is_rounded=False))
    if isinstance(mine, Affine):
        if not isinstance(x, Affine) or not _same_terms(mine, x):
            raise op.fail("addresses or integers whose steps differ between branches")
        base.set(x.base)
    elif isinstance(mine, Buffer):
        _copy(g, x, mine)
    else:
        mine.set(x)
    return mine
