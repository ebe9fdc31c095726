# SPDX-License-Identifier: BSD-3-Clause
"""Steps that do the work of two, so that a tile is written and read once less: e^(a - b), and a store that computes."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence

import torch

from .steps import Step, code

STORE_WORDS = 6  # of a store that is not to a tile of rows
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
        if step.bodies and step.op not in ("reduce", "scan"):  # a combination works on some of its elements
            step = dataclasses.replace(step, bodies=[_fused(body, slots, uses) for body in step.bodies])
        joined = None
        if step.op == "exp" or (step.op == "store" and len(step.words) == STORE_WORDS):
            value = step.words[1 if step.op == "exp" else 3]
            at = _maker(found, value) if uses[value] == 2 and slots[value][1] > 1 else None
            if at is not None:
                joined = _joined(found[at], step, slots)
        if joined is not None and at is not None:
            del found[at]
        found.append(joined or step)
    return found


def _maker(steps: list[Step], value: int) -> int | None:
    """Return the index of the arithmetic that makes a value, if its operands are still the same after all steps."""
    written: set[int] = set()
    for at in range(len(steps) - 1, -1, -1):
        step = steps[at]
        if step.op == "arithmetic" and step.words[0] == value:
            return None if written & set(step.words[1:3]) else at
        if step.bodies:
            return None
        written.update(step.values[:1])
    return None


def _joined(maker: Step, step: Step, slots: Slots) -> Step | None:
    out, a, b, kind = maker.words
    if step.op == "store":
        return Step("store", [*step.words, kind, a, b], [*step.values, a, b])
    whole = slots[a][1] == slots[out][1] and slots[b][1] == 1
    if kind != code("TileArithmetic", "sub") or not whole:
        return None
    return Step("exp", [step.words[0], a, b], [step.words[0], a, b])
