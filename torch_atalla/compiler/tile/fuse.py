# SPDX-License-Identifier: BSD-3-Clause
"""Steps that do the work of two, so that a tile is written and read once less: e^(a - b), and a store that computes."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence

import torch

from .step_types import Arithmetic, Exp, ExpShifted, Reduce, Scan, Store, StoreMade
from .words import Step

Slots = Sequence[tuple[torch.dtype, int]]


def fused(steps: list[Step], slots: Slots) -> list[Step]:
    """Return the steps, of which some are joined. `slots`: dtype and number of elements of each value."""
    uses: Counter[int] = Counter()
    _count(steps, uses)
    return _fused(steps, slots, uses)


def _count(steps: list[Step], uses: Counter[int]) -> None:
    for step in steps:
        uses.update(step.values)
        for body in step.bodies:
            _count(body, uses)


def _fused(steps: list[Step], slots: Slots, uses: Counter[int]) -> list[Step]:
    found: list[Step] = []
    for step in steps:
        if step.bodies and not isinstance(step, (Reduce, Scan)):  # a combination works on some of its elements
            step = step.with_bodies([_fused(body, slots, uses) for body in step.bodies])
        value = _single_source(step)
        at = _maker(found, value) if value is not None and uses[value] == 2 and slots[value][1] > 1 else None
        maker = None if at is None else found[at]
        joined = _joined(maker, step, slots) if isinstance(maker, Arithmetic) else None
        if joined is not None and at is not None:
            del found[at]
        found.append(joined or step)
    return found


def _single_source(step: Step) -> int | None:
    """The value that a step may compute itself."""
    if isinstance(step, Exp):
        return step.source
    return step.stored if isinstance(step, Store) and step.rows is None else None


def _maker(steps: list[Step], value: int) -> int | None:
    """Return the index of the arithmetic that makes a value, if its operands are still the same after all steps."""
    written: set[int] = set()
    for at in range(len(steps) - 1, -1, -1):
        step = steps[at]
        if isinstance(step, Arithmetic) and step.out == value:
            return None if written & {step.a, step.b} else at
        if step.bodies:
            return None
        written.update(step.ids("out", "state"))
    return None


def _joined(maker: Arithmetic, step: Step, slots: Slots) -> Step | None:
    if isinstance(step, Store):
        return dataclasses.replace(step, made=StoreMade(maker.kind, maker.a, maker.b))
    whole = slots[maker.a][1] == slots[maker.out][1] and slots[maker.b][1] == 1
    if maker.kind != "sub" or not whole or not isinstance(step, Exp):
        return None
    return Exp(step.out, maker.a, ExpShifted(maker.b))
