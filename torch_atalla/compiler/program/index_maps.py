# SPDX-License-Identifier: BSD-3-Clause
"""The index maps of a launch (csrc/sim/kernels.yaml): which loop each dimension of each operand follows."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .ir import AnyOperand, Launch, Operand
from .kernels import Contract, IndexMap, Loop

Labels = Sequence[str]  # of each dimension: the name of a loop, or `*group.3`; empty for one that no loop names


def dimensions(
    contract: Contract, written: bool, operands: Sequence[AnyOperand | None], launch: Launch
) -> list[Labels]:
    """Of each output, or each input, of the launch. Operands beyond the contract follow its last map."""
    maps = [item for item in contract.maps if item.written == written]
    rest = len(operands) - len(maps)
    found: list[Labels] = []
    for k, operand in enumerate(operands):
        repeated = next((j for j, item in enumerate(maps) if item.repeat), len(maps) - 1)
        place = k if k < repeated or rest <= 0 else max(repeated, k - rest)
        found.append(_labels(maps[place], operand, launch) if maps and isinstance(operand, Operand) else ())
    return found


def _labels(item: IndexMap, operand: Operand, launch: Launch) -> Labels:
    rank = len(operand.sizes)
    groups = [term for term in item.terms if term.startswith("*")]
    numbered = [term for term in item.terms if "@" in term and not term.startswith("*")]
    if numbered:  # [*before, n@dim, *after]
        name, _, parameter = numbered[0].partition("@")
        dim = launch.parameter(parameter) % max(rank, 1)
        before, after = (f"{group}.{{}}" for group in groups)
        return [name if d == dim else (before if d < dim else after).format(d) for d in range(rank)]
    if not groups:
        return item.terms[:rank]
    start = item.terms.index(groups[0])
    count = rank - len(item.terms) + 1
    name, _, mask = groups[0].partition("@")
    reduced = launch.parameter(mask) if mask else 0
    inside = ["" if reduced >> d & 1 else f"{name}.{d}" for d in range(count)]
    return [*item.terms[:start], *inside, *item.terms[start + 1 :]]


def holds(loop: Loop, contract: Contract, launch: Launch) -> bool:
    """Whether the condition of a loop is fulfilled."""
    if not loop.condition:
        return True
    if len(loop.condition) == 1:  # without an optional operand
        names = [item.name for item in contract.maps if item.written]
        place = names.index(loop.condition[0])
        return place >= len(launch.outputs) or launch.outputs[place] is None
    left, right = (size_of(text, contract, launch) for text in loop.condition)
    return left == right


def size_of(text: str, contract: Contract, launch: Launch, axis: int = 0) -> int:
    """A number, a parameter (`padding[1]`), a size of an operand, or place `axis` of a group or of a parameter."""
    if text.isdecimal():
        return int(text)
    name, number = re.fullmatch(r"([*\w]+)(?:\[(\d+)\])?", text).groups()  # type: ignore[union-attr]
    if name in contract.parameters:
        value = launch.parameter(name)
        return value[int(number or axis)] if isinstance(value, tuple) else value
    wanted = f"{name}.{axis}" if name.startswith("*") else name
    for operands, written in ((launch.inputs, False), (launch.outputs, True)):
        for operand, labels in zip(operands, dimensions(contract, written, operands, launch)):
            if isinstance(operand, Operand) and wanted in labels:
                return operand.sizes[list(labels).index(wanted)]
    raise ValueError(f"{launch.kernel}: `{text}` is neither a number, a parameter nor a size of an operand")
