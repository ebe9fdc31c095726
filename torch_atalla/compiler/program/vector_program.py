# SPDX-License-Identifier: BSD-3-Clause
"""Vector programs: chains of pointwise operations that one launch applies tile by tile.

The kernels `fused` and `gemm_packed` take them as an operand (csrc/sim/kernels/pointwise/vector_program.h). Values are
numbered: the inputs first, then one a step.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

import torch

from torch_atalla.driver.dtypes import CODES, DTYPES, from_name, short_name
from torch_atalla.loadable.errors import ExportError

from .support import generated

VERSION = 1

# Limits of the kernels.
MAX_STEPS = 32
MAX_SOURCES = 4  # of a step
MAX_INPUTS = 10
MAX_OUTPUTS = 4
MAX_BUFFERS = 12

CONVERT = "convert"  # a step that changes the dtype: its `dtype` is the result's


@dataclass(frozen=True)
class Step:
    kernel: str
    sources: tuple[int, ...]
    dtype: torch.dtype  # in which the kernel computes
    iparams: tuple[int, ...] = ()
    fparams: tuple[float, ...] = ()

    def __str__(self) -> str:
        text = f"{self.kernel.removeprefix('pointwise.')}.{short_name(self.dtype)}"
        text += "".join(f" v{source}" for source in self.sources)
        # A scalar stands in both lists, as an integer and as a double.
        if self.fparams or self.iparams:
            numbers = self.fparams if any(self.fparams) else self.iparams
            text += f" ({', '.join(f'{number:g}' for number in numbers)})"
        return text


@dataclass(frozen=True)
class VectorProgram:
    inputs: tuple[torch.dtype, ...]  # the dtype in which the steps meet each
    steps: tuple[Step, ...]
    outputs: tuple[int, ...]  # values

    def __str__(self) -> str:
        lines = [f"v{len(self.inputs) + i} = {step}" for i, step in enumerate(self.steps)]
        return "; ".join(lines) + " -> " + ", ".join(f"v{value}" for value in self.outputs)

    def buffers(self) -> list[int] | None:
        """The buffer of each step's result; None when the kernels have too few."""
        first = len(self.inputs)
        last_use = {value: i for i, step in enumerate(self.steps) for value in step.sources}
        last_use |= dict.fromkeys(self.outputs, len(self.steps))
        free, of_step = list(reversed(range(MAX_BUFFERS))), list[int]()
        for i, step in enumerate(self.steps):
            if not free:
                return None
            of_step.append(free.pop())
            # After the step: a source and a result of different sizes must not share a buffer.
            for value in set(step.sources):
                if value >= first and last_use[value] == i:
                    free.append(of_step[value - first])
            if first + i not in last_use:
                free.append(of_step[i])
        return of_step

    def fits(self) -> bool:
        return (
            1 <= len(self.steps) <= MAX_STEPS
            and len(self.inputs) <= MAX_INPUTS
            and 1 <= len(self.outputs) <= MAX_OUTPUTS
            and self.buffers() is not None
        )

    def encode(self) -> list[int]:
        """As 64-bit words, signed."""
        buffers = self.buffers()
        if buffers is None or not self.fits():
            raise ExportError(f"a vector program is too long for the kernels: {self}")
        used = max(buffers) + 1
        words = [VERSION, len(self.inputs) | len(self.steps) << 8 | len(self.outputs) << 16 | used << 24]
        words += [CODES[dtype] for dtype in self.inputs]
        for step, buffer in zip(self.steps, buffers):
            iparams, fparams = stripped(step.iparams), stripped(step.fparams)
            head = len(step.sources) | buffer << 8 | CODES[step.dtype] << 16 | (len(iparams) | len(fparams) << 4) << 24
            for k, source in enumerate(step.sources):
                head |= source << (32 + 8 * k)
            words += [0 if step.kernel == CONVERT else kernel_hash(step.kernel), _signed(head), *iparams]
            words += struct.unpack(f"<{len(fparams)}q", struct.pack(f"<{len(fparams)}d", *fparams))
        return words + list(self.outputs)

    @classmethod
    def decode(cls, words: Sequence[int]) -> VectorProgram:
        """What `encode` has written. Raises ExportError for other words."""
        names = {kernel_hash(name): name for name in step_table()} | {0: CONVERT}
        try:
            version, counts, *rest = words
            n_inputs, n_steps, n_outputs = (counts >> shift & 0xFF for shift in (0, 8, 16))
            inputs, place, steps = tuple(DTYPES[code] for code in rest[:n_inputs]), n_inputs, list[Step]()
            for _ in range(n_steps):
                name, head = names[rest[place]], rest[place + 1]
                ints, floats = head >> 24 & 0xF, head >> 28 & 0xF
                sources = tuple(head >> (32 + 8 * k) & 0xFF for k in range(head & 0xFF))
                iparams = tuple(rest[place + 2 : place + 2 + ints])
                place += 2 + ints + floats
                fparams = struct.unpack(f"<{floats}d", struct.pack(f"<{floats}q", *rest[place - floats : place]))
                steps.append(Step(name, sources, DTYPES[head >> 16 & 0xFF], iparams, fparams))
        except (ValueError, KeyError, IndexError, struct.error) as error:
            raise ExportError(f"these are not the words of a vector program: {error}") from error
        if version != VERSION or len(rest) != place + n_outputs:
            raise ExportError(f"a vector program of version {version} and {len(words)} words")
        return cls(inputs, tuple(steps), tuple(rest[place:]))


@dataclass(frozen=True)
class StepKind:
    """What a pointwise kernel takes and gives as a step."""

    inputs: tuple[str, ...]  # "compute", or the dtype in which it loads an input
    result: str  # "same" as the compute dtype, "real", or a dtype
    dtypes: frozenset[str]
    integers_fault: bool

    def input_dtypes(self, loop: torch.dtype) -> list[torch.dtype]:
        """In which it meets its inputs. loop: in which it holds its elements."""
        return [loop if text == "compute" else from_name(text) for text in self.inputs]

    def result_dtype(self, loop: torch.dtype) -> torch.dtype:
        return loop if self.result in ("same", "real") else from_name(self.result)


@lru_cache(maxsize=1)
def step_table() -> dict[str, StepKind]:
    """Of the kernels of this build with one result, few sources, and no requirement of their elements, by their names.
    Raises ExportError when the package was not built."""
    found = {}
    for name, row in generated("formulas.json", "table of formulas").items():
        inputs, results = tuple(dtype for _, dtype in row["inputs"]), row["results"]
        if len(results) == 1 and 1 <= len(inputs) <= MAX_SOURCES and not row["requires"]:
            found[name] = StepKind(inputs, results[0], frozenset(row["dtypes"]), row["integers_fault"])
    return found


def loop_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype in which a pointwise kernel that computes in `dtype` holds its elements."""
    return torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype


@cache
def kernel_hash(name: str) -> int:
    """The hash of a kernel's name (FNV-1a, 64 bits) as a word."""
    value = 0xCBF29CE484222325
    for byte in name.encode():
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return _signed(value)


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word


def stripped(numbers: Sequence) -> tuple:
    """Without the zeros at the end, which the kernels assume. (-0.0 is no such zero.)"""
    end = len(numbers)
    while end and struct.pack("<d", numbers[end - 1]) == bytes(8):
        end -= 1
    return tuple(numbers[:end])
