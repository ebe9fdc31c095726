# SPDX-License-Identifier: BSD-3-Clause
"""Which arguments of a function its stores and atomic updates may reach."""

from __future__ import annotations

from collections.abc import Iterable

from .ir import Function, Op, Value

_WRITES = ("tt.store", "tt.atomic_rmw", "tt.atomic_cas")
_UNKNOWN = -1  # an address that memory or a number gave

_ENDS = ("scf.yield", "scf.condition", "tt.reduce.return", "tt.scan.return", "tt.map_elementwise.return")


def written_arguments(functions: dict[str, Function], entry: Function) -> set[int] | None:
    """Positions of the arguments that may be written; None if addresses come from elsewhere than the arguments.

    A pointer may be any of those that its op, a round of a loop, a branch or a call may give it.
    """
    pointers = [(i, v) for i, v in enumerate(entry.arguments) if v.type.element == "ptr"]
    roots: dict[Value, frozenset[int]] = {v: frozenset({i}) for i, v in pointers}
    ops = [op for f in functions.values() for block in f.body.all_blocks() for op in block.ops]
    changed = True
    while changed:
        changed = False
        for op in ops:
            for target, sources in _flows(functions, op):
                found = roots.get(target, frozenset()).union(*(roots.get(s, frozenset()) for s in sources))
                if op.name in ("tt.int_to_ptr", "tt.load") and target.type.element == "ptr":
                    found |= {_UNKNOWN}
                if found != roots.get(target, frozenset()):
                    roots[target] = found
                    changed = True
    written: set[int] = set()
    for op in ops:
        if op.name in _WRITES:
            found = roots.get(op.operands[0], frozenset())
            if _UNKNOWN in found or not found:
                return None
            written |= found
    return written


def _flows(functions: dict[str, Function], op: Op) -> Iterable[tuple[Value, list[Value]]]:
    """What may flow into a value: (value, sources). Everything that an op reads may be in each of its results."""
    for result in op.results:
        yield result, op.operands
    for region in op.regions:
        for block in region.blocks:
            for argument in block.arguments:
                yield argument, op.operands
            if block.ops and block.ops[-1].name in _ENDS:  # TTIR prints no end that gives nothing
                end = block.ops[-1]
                for value in (*op.results, *(a for r in op.regions for b in r.blocks for a in b.arguments)):
                    yield value, end.operands
    if op.name in ("cf.br", "cf.cond_br"):
        for function in functions.values():
            for block in function.body.blocks:
                if block.label in op.successors:
                    for argument in block.arguments:
                        yield argument, op.operands
    if op.name == "tt.call":
        for function in functions.values():
            if function.name in (*op.attributes.get("words", ()), *op.attributes.get("strings", ())):
                yield from ((a, [v]) for a, v in zip(function.arguments, op.operands, strict=True))
                for block in function.body.blocks:
                    for end in block.ops:
                        if end.name == "tt.return":
                            yield from ((r, [v]) for r, v in zip(op.results, end.operands, strict=True))
