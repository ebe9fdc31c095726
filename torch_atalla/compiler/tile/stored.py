# SPDX-License-Identifier: BSD-3-Clause
"""Tile programs as bytes, for Triton's cache: JSON, which runs no code when it is read."""

from __future__ import annotations

import json
from typing import Any

from ...driver.dtypes import CODES, DTYPES
from .step_types import STEPS
from .steps import Argument, TileProgram
from .words import Step


def pack(program: TileProgram, ttir: str) -> bytes:
    """ttir: of which the program was made, for other targets."""
    slots = [(CODES[dtype], count) for dtype, count in program.slots]
    arguments = [(argument.value, argument.position) for argument in program.arguments]
    flags = program.sequential, program.reads_addresses, sorted(program.written)
    fields = (
        program.name,
        slots,
        [_packed(step, len(program.texts)) for step in program.steps],
        arguments,
        program.texts,
        *flags,
        ttir,
    )
    return json.dumps(fields, separators=(",", ":")).encode()


def unpack(data: bytes) -> tuple[TileProgram, str]:
    """The program and the TTIR that `pack` was given. Raises ValueError for other bytes."""
    try:
        name, slots, steps, arguments, texts, sequential, reads_addresses, written, ttir = json.loads(data)
        program = TileProgram(
            str(name),
            [(DTYPES[code], int(count)) for code, count in slots],
            [_unpacked(step) for step in steps],
            [Argument(int(value), int(position)) for value, position in arguments],
            [str(text) for text in texts],
            bool(sequential),
            bool(reads_addresses),
            set(map(int, written)),
        )
        return program, str(ttir)
    except (ValueError, TypeError, KeyError, IndexError) as error:
        raise ValueError(
            f"expected a tile program of this version in Triton's cache, got {len(data)} other bytes ({error}); remove "
            "the folder of TRITON_CACHE_DIR"
        ) from error


def _packed(step: Step, texts: int) -> list[Any]:
    bodies = [[_packed(inner, texts) for inner in body] for body in step.bodies]
    return [step.op, list(step.numbers(range(texts))), bodies]


def _unpacked(fields: list[Any]) -> Step:
    op, words, bodies = fields
    return STEPS[op].build([int(w) for w in words], [[_unpacked(inner) for inner in body] for body in bodies])
