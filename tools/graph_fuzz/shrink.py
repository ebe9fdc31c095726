# SPDX-License-Identifier: BSD-3-Clause
"""Makes a failing program smaller, as long as it fails in the same check and category."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

import torch

from . import inputs
from .program import Case, Program

Fails = Callable[[Program], bool]


def shrink(program: Program, fails: Fails, most: int = 300) -> Program:
    """`fails` tells whether a candidate still fails; it is asked at most `most` times."""
    asked = 0
    changed = True
    while changed and asked < most:
        changed = False
        for candidate in candidates(program):
            if asked >= most:
                break
            if size(candidate) >= size(program):
                continue
            asked += 1
            if fails(candidate):
                program, changed = candidate, True
                break
    return program


def size(program: Program) -> tuple[int, int, int]:
    text = program.source()
    return (len(program.lines), len(program.outputs), sum(c.isdigit() for c in text) + len(text))


def candidates(program: Program) -> Iterator[Program]:
    """Fewer outputs, values cut out and given as inputs instead, fewer statements, simpler inputs."""
    if len(program.outputs) > 1:
        for k in range(len(program.outputs)):
            yield replace(program, outputs=(program.outputs[k],)).without_dead_code()
        for k in range(len(program.outputs)):
            yield replace(program, outputs=program.outputs[:k] + program.outputs[k + 1 :]).without_dead_code()
    values = known_values(program)
    for k in reversed(range(len(program.lines))):
        line = program.lines[k]
        rest = program.lines[:k] + program.lines[k + 1 :]
        if not line.defines:
            yield replace(program, lines=rest).without_dead_code()
            continue
        if not program.sizes and all(name in values for name in line.defines):
            given = {name: inputs.like(values[name]) for name in line.defines}
            yield replace(program, lines=rest, inputs={**program.inputs, **given}).without_dead_code()
    for name, text in program.inputs.items():
        for simpler in _simpler(text):
            yield replace(program, inputs={**program.inputs, name: simpler})
    if program.dynamic and not program.sizes:
        yield replace(program, dynamic="")


def _simpler(text: str) -> Iterator[str]:
    """Without a view or a special value at the end."""
    cut = re.sub(r"\.masked_fill\(torch\.rand\([^)]*\)+ > 0\.9, float\('[^']*'\)\)", "", text)
    if cut != text:
        yield cut
    cut = re.sub(r"\.(to\(memory_format=[^)]*\)|to\(torch\.\w+\))$", "", text)
    if cut != text:
        yield cut


def known_values(program: Program) -> dict[str, torch.Tensor]:
    """What each statement gives on the CPU; nothing if the program does not run."""
    outputs = [name for line in program.lines for name in line.defines]
    whole = replace(program, outputs=tuple(outputs))
    try:
        module, args = Case(whole.source()).build()
        with torch.no_grad():
            results = module(*args)
    except Exception:
        return {}
    return {name: value for name, value in zip(outputs, results) if isinstance(value, torch.Tensor)}
