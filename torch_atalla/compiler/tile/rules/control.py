# SPDX-License-Identifier: BSD-3-Clause
"""Program ids, loops, branches, calls, assertions and prints."""

from __future__ import annotations

import dataclasses
import functools

from ..ir import Block, Op, Type, Value
from ..lower import TERMINATORS, Lowering, Places, Tile, rule
from ..step_types import Branch, Copy, Loop, Print, ProgramCount, ProgramId, Require, WhileLoop

AXES = {"x": 0, "y": 1, "z": 2}


@rule("tt.get_program_id", "tt.get_num_programs")
def _program(low: Lowering, op: Op) -> list[Tile]:
    out = low.new(op.results[0].type)
    dimension = AXES[op.attributes["words"][0]]
    low.emit((ProgramId if op.name == "tt.get_program_id" else ProgramCount)(out.id, dimension))
    return [out]


@rule("scf.for")
def _for(low: Lowering, op: Op) -> list[Tile | Places]:
    first, bound, step = (low.of(v) for v in op.operands[:3])
    index, *arguments = op.regions[0].entry.arguments
    counter = low.new(index.type)
    moving = _moving(low, op)
    carried = [low.new(Type("i64") if i in moving else a.type) for i, a in enumerate(arguments)]
    low.carried.update(t.id for t in carried)

    def of(i: int, value: Value) -> Tile:
        return low.places[value].base if i in moving else low.of(value)

    def bind(i: int, value: Value) -> None:
        low.places.pop(value, None)
        if i in moving:
            low.places[value] = dataclasses.replace(moving[i], base=carried[i])
        else:
            low.bound[value] = carried[i]

    low.copy_all(carried, [of(i, v) for i, v in enumerate(op.operands[3:])])
    low.bound[index] = counter
    for i, argument in enumerate(arguments):
        bind(i, argument)

    def body() -> None:
        kept = dict(low.preferred)
        low.preferred.update(_in_place(op.regions[0].entry, arguments, carried))
        end = low.block(op.regions[0].entry)
        low.preferred = kept
        if end is not None:
            low.copy_all(carried, [of(i, v) for i, v in enumerate(end.operands)])

    steps = low.inside(body)
    low.emit(Loop(counter.id, first.id, bound.id, step.id, int(op.attributes["unsigned"]), steps))
    return [low.places[a] if i in moving else carried[i] for i, a in enumerate(arguments)]


def _moving(low: Lowering, op: Op) -> dict[int, Places]:
    """Carried tiles of addresses that each round moves as a whole: the base is carried, and the offsets stay."""
    entry = op.regions[0].entry
    end = entry.ops[-1] if entry.ops and entry.ops[-1].name == "scf.yield" else None
    made = {result: o for o in entry.ops for result in o.results}
    found = {}
    for i, argument in enumerate(entry.arguments[1:]):
        places = low.places.get(op.operands[3 + i])
        move = made.get(end.operands[i]) if end is not None else None
        if places is None or move is None or move.name != "tt.addptr" or move.operands[0] is not argument:
            continue
        by = move.operands[1]
        maker = made.get(by)
        if maker.name == "tt.splat" if maker is not None else by in low.bound and low.bound[by].one:
            found[i] = places
    return found


# Ops whose result may be written over an operand, element by element.
_ELEMENTWISE = ("arith.addf", "arith.addi", "arith.subf", "arith.mulf", "arith.maxnumf", "tt.addptr", "arith.select")


def _in_place(block: Block, arguments: list[Value], carried: list[Tile]) -> dict[Value, Tile]:
    """Results that may stand where the next round reads them: their argument has no later use."""
    end = block.ops[-1] if block.ops and block.ops[-1].name in TERMINATORS else None
    if end is None:
        return {}
    places = {id(op): i for i, op in enumerate(block.ops)}
    defined = {result: op for op in block.ops for result in op.results}
    last: dict[Value, int] = {}
    for i, op in enumerate(block.ops):
        for value in _uses(op):
            last[value] = i
    found = {}
    for argument, tile, value in zip(arguments, carried, end.operands, strict=True):
        maker = defined.get(value)
        if maker is None or end.operands.count(value) > 1 or argument in end.operands:
            continue
        if maker.name not in _ELEMENTWISE and maker.name != "tt.dot":
            continue
        if argument.type != value.type or argument.type.element in ("f16", "bf16"):
            continue
        if maker.name == "tt.dot" and (maker.operands[2] is not argument or argument in maker.operands[:2]):
            continue
        if last.get(argument, -1) <= places[id(maker)]:
            found[value] = tile
    return found


def _uses(op: Op) -> list[Value]:
    inner = [v for region in op.regions for block in region.blocks for o in block.ops for v in _uses(o)]
    return [*op.operands, *inner]


@rule("scf.while")
def _while(low: Lowering, op: Op) -> list[Tile]:
    before, after = (region.entry for region in op.regions)
    carried = [low.new(a.type) for a in before.arguments]
    low.carried.update(t.id for t in carried)
    low.copy_all(carried, [low.of(v) for v in op.operands])
    low.bound.update(zip(before.arguments, carried, strict=True))
    forwarded = [low.new(r.type) for r in op.results]
    flag: list[Tile] = []

    def condition() -> None:
        end = low.block(before)
        assert end is not None
        holds, *values = (low.of(v) for v in end.operands)
        kept = low.new(holds.type)
        low.emit(Copy(kept.id, holds.id))
        flag.append(kept)
        low.copy_all(forwarded, values)

    def body() -> None:
        low.bound.update(zip(after.arguments, forwarded, strict=True))
        low.block_into(after, carried)

    bodies = [low.inside(condition), low.inside(body)]
    low.emit(WhileLoop(flag[0].id, *bodies))
    return forwarded


@rule("scf.if")
def _if(low: Lowering, op: Op) -> list[Tile]:
    condition = low.of(op.operands[0])
    outs = [low.new(r.type) for r in op.results]

    bodies = [low.inside(functools.partial(low.block_into, region.entry, outs)) for region in op.regions]
    bodies += [[]] * (2 - len(bodies))
    low.emit(Branch(condition.id, *bodies))
    return outs


@rule("tt.call")
def _call(low: Lowering, op: Op) -> list[Tile]:
    name = next(w for w in [*op.attributes.get("words", ()), *op.attributes.get("strings", ())])
    function = low.functions.get(str(name))
    if function is None:
        raise op.fail(f"the function `{name}` is not in the module")
    if function.name in low.calls:
        raise op.fail(f"the function `{name}` calls itself")
    low.bound.update(zip(function.arguments, [low.of(v) for v in op.operands], strict=True))
    low.calls.append(function.name)
    if len(function.body.blocks) > 1:
        outs = [low.new(r.type) for r in op.results]
        low.blocks(function.body, function.body.entry, outs)
        low.calls.pop()
        return outs
    end = low.block(function.body.entry)
    low.calls.pop()
    return [low.of(v) for v in end.operands] if end is not None else []


@rule("tt.assert", "cf.assert")
def _assert(low: Lowering, op: Op) -> list[Tile]:
    condition = low.of(op.operands[0])
    low.texts.append(str(op.attributes.get("strings", [""])[0]))
    low.emit(Require(condition.id, len(low.texts) - 1, low.line(op)))
    return []


@rule("tt.print")
def _print(low: Lowering, op: Op) -> list[Tile]:
    low.sequential = True  # lines come in order
    low.texts.append(str(op.attributes.get("strings", [""])[0]))
    text = len(low.texts) - 1
    shown = [low.full(low.widened(low.of(value))).id for value in op.operands]
    for value in shown or [-1]:
        low.emit(Print(text, value))
    return []
