# SPDX-License-Identifier: BSD-3-Clause
"""Compiled programs as bytes for Triton's cache, and their launches."""

from __future__ import annotations

import dataclasses
import functools
import pickle
import struct
import tomllib
from collections.abc import Sequence
from typing import Any

import torch

from ...compiler.tile.cost import Geometry, cost_of
from ...compiler.tile.steps import ARGUMENT_WORDS, TileProgram
from ...driver.extension import _C

MOST_TENSORS = 11  # operands of a launch without the program
KEPT = 256  # programs with their arguments that stay on the device, of one kernel

_library = torch.library.Library("atalla", "FRAGMENT")  # a definition ends with its library
_library.define(
    "tile_program(Tensor(a!)[] outputs, Tensor[] inputs, Tensor program, int[] grid, int[] cost, "
    "bool whole_memory=False) -> ()",
    tags=(torch.Tag.pt2_compliant_tag,),
)
_FLOATS = {"fp16": "e", "fp32": "f", "f32": "f", "fp64": "d", "f64": "d"}


@functools.cache
def _geometry(device: int) -> Geometry:
    return Geometry.of(tomllib.loads(_C.chip_config(device)))


def pack(program: TileProgram) -> bytes:
    return pickle.dumps(program)


@dataclasses.dataclass
class LoadedProgram:
    """A program whose words wait for their arguments."""

    program: TileProgram
    words: torch.Tensor  # on the CPU
    argument_offset: int
    kept: dict[Any, tuple[torch.Tensor, list[int]]] = dataclasses.field(default_factory=dict)

    @staticmethod
    def load(data: bytes) -> LoadedProgram:
        program: TileProgram = pickle.loads(data)
        return LoadedProgram(program, torch.tensor(program.encode(), dtype=torch.int64), program.argument_offset())

    def launch(self, grid: Sequence[int], kinds: Sequence[str], arguments: Sequence[Any], device: torch.device) -> None:
        """`kinds`: Triton's types of the arguments: "*fp32", "i32", ..."""
        outputs, inputs = self._storages(arguments, device)
        whole_memory = self.program.reads_addresses
        most = MOST_TENSORS - whole_memory
        if len(outputs) + len(inputs) > most:
            found = len(outputs) + len(inputs)
            raise ValueError(f"expected at most {most} tensors with memory of their own, got {found}")
        places = {key: i for i, key in enumerate(outputs)}
        places |= {key: len(outputs) + whole_memory + i for i, key in enumerate(inputs)}
        words: list[tuple[int, int]] = []
        for kind, argument in zip(kinds, arguments, strict=True):
            if isinstance(argument, torch.Tensor):
                offset = int(argument.storage_offset()) * argument.element_size()
                words.append((places[argument.untyped_storage()._cdata], offset))
            elif kind.startswith("*"):
                words.append((-1, int(argument.data_ptr() if hasattr(argument, "data_ptr") else argument or 0)))
            else:
                words.append((-1, number_bits(kind, argument)))
        key = (tuple(words), tuple(grid), device.index)
        entry = self.kept.get(key)
        if entry is None:
            entry = self._with_arguments(words, grid, device)
            if len(self.kept) >= KEPT:
                del self.kept[next(iter(self.kept))]
            self.kept[key] = entry
        program, cost = entry
        torch.ops.atalla.tile_program(
            list(outputs.values()), list(inputs.values()), program, list(grid), cost, whole_memory
        )

    def _storages(
        self, arguments: Sequence[Any], device: torch.device
    ) -> tuple[dict[int, torch.Tensor], dict[int, torch.Tensor]]:
        """A tensor of each storage that the program may write, and of each that it only reads."""
        outputs: dict[int, torch.Tensor] = {}
        inputs: dict[int, torch.Tensor] = {}
        for i, argument in enumerate(arguments):
            if not isinstance(argument, torch.Tensor):
                continue
            if argument.device != device:
                raise ValueError(
                    f"Pointer argument (at {i}) cannot be accessed from Triton: expected a tensor on {device}, got one "
                    f"on {argument.device}"
                )
            (outputs if i in self.program.written else inputs)[argument.untyped_storage()._cdata] = argument
        return outputs, {key: t for key, t in inputs.items() if key not in outputs}

    def _with_arguments(
        self, words: Sequence[tuple[int, int]], grid: Sequence[int], device: torch.device
    ) -> tuple[torch.Tensor, list[int]]:
        filled = self.words.clone()
        integers = {}
        for i, argument in enumerate(self.program.arguments):
            operand, number = words[argument.position]
            at = self.argument_offset + ARGUMENT_WORDS * i
            filled[at + 1], filled[at + 2] = operand, number
            if operand < 0 and not self.program.slots[argument.value][0].is_floating_point:
                integers[argument.value] = number
        return filled.to(device), cost_of(self.program, integers, grid, _geometry(device.index))


def number_bits(kind: str, argument: Any) -> int:
    """The bits of a scalar argument as a signed word."""
    if kind == "bf16":
        kind, argument = "fp32", torch.tensor(float(argument), dtype=torch.bfloat16).item()
        return int(struct.unpack("<i", struct.pack("<f", argument))[0]) >> 16
    if kind in _FLOATS:
        letter = _FLOATS[kind]
        integer = {"e": "h", "f": "i", "d": "q"}[letter]
        return int(struct.unpack(f"<{integer}", struct.pack(f"<{letter}", float(argument)))[0])
    value = int(argument)
    return value - (1 << 64) if value >= 1 << 63 else value
