# SPDX-License-Identifier: BSD-3-Clause
"""Launches of tile programs: arguments become words of the program, tensors become operands."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch._prims_common import clone_preserve_strides

from ...driver.extension import _C
from .step_types import ArgumentWords
from .steps import TileProgram
from .stored import unpack

MOST_TENSORS = 11  # operands of a launch without the program
KEPT = 256  # programs with their arguments that stay on the device, of one kernel, beside those of captured graphs
MOST_KNOWN = 1 << 14  # launches whose code the clock can find

_library = torch.library.Library("atalla", "FRAGMENT")  # a definition ends with its library
_library.define(
    "tile_program(Tensor(a!)[] outputs, Tensor[] inputs, Tensor program, int[] grid, int digest, "
    "bool whole_memory=False) -> ()",
    tags=(torch.Tag.pt2_compliant_tag,),
)
# The launch in graphs. It returns copies of the tensors at the positions `written`, with what the program (a key of
# `named`) writes there. The kernel's argument i is tensors[operands[i]] from byte numbers[i] on, or has the bits
# numbers[i] if operands[i] is -1.
_library.define(
    "tile_program_copy(Tensor[] tensors, int[] written, str program, int[] operands, int[] numbers, int[] grid) "
    "-> Tensor[]",
    tags=(torch.Tag.pt2_compliant_tag,),
)
_FLOATS = {"fp16": "e", "fp32": "f", "f32": "f", "fp64": "d", "f64": "d"}

Bound = tuple[torch.Tensor | None, int]  # an argument: a tensor and an offset in bytes, or the bits of a number
Word = tuple[int, int]  # an argument: an operand of the launch and an offset in bytes, or -1 and the bits of a number


@dataclasses.dataclass
class Launched:
    """A launch that `observed_launches` found. The tensors are those that the kernel was called with."""

    program: LoadedProgram
    grid: tuple[int, ...]
    arguments: list[Bound]


class _Observers(threading.local):
    found: list[Launched] | None = None
    run = True


_observers = _Observers()


@contextlib.contextmanager
def observed_launches(*, run: bool) -> Iterator[list[Launched]]:
    """The calling thread's launches of tile programs while the context is active, which run or do not."""
    kept = _observers.found, _observers.run
    found: list[Launched] = []
    _observers.found, _observers.run = found, run
    try:
        yield found
    finally:
        _observers.found, _observers.run = kept


@dataclasses.dataclass
class LoadedProgram:
    """A program whose words wait for their arguments. elsewhere: runs a launch on another engine, if one is selected,
    and says so; it takes what `launch` takes."""

    program: TileProgram
    ttir: str
    key: str  # name and digest
    words: torch.Tensor  # on the CPU
    argument_offset: int
    kept: dict[Any, tuple[torch.Tensor, int]] = dataclasses.field(default_factory=dict)
    captured: dict[Any, tuple[torch.Tensor, int]] = dataclasses.field(default_factory=dict)  # graphs read them
    elsewhere: Callable[[Sequence[int], Sequence[str], Sequence[Any], torch.device], bool] | None = None

    @staticmethod
    def load(data: bytes) -> LoadedProgram:
        program, ttir = unpack(data)
        words = torch.tensor(program.encode(), dtype=torch.int64)
        key = f"{program.name.partition(' ')[0]}:{hashlib.sha256(data).hexdigest()[:32]}"
        return LoadedProgram(program, ttir, key, words, program.argument_offset())

    def launch(self, grid: Sequence[int], kinds: Sequence[str], arguments: Sequence[Any], device: torch.device) -> None:
        """`kinds`: Triton's types of the arguments: "*fp32", "i32", ..."""
        bound: list[Bound] = []
        for kind, argument in zip(kinds, arguments, strict=True):
            if isinstance(argument, torch.Tensor):
                bound.append((argument, 0))
            elif kind.startswith("*"):
                bound.append((None, int(argument.data_ptr() if hasattr(argument, "data_ptr") else argument or 0)))
            else:
                bound.append((None, number_bits(kind, argument)))
        if _observers.found is not None:
            _observers.found.append(Launched(self, tuple(grid), bound))
            if not _observers.run:
                return
        self._storages(bound, device)  # on this device, or they are refused
        if self.elsewhere is None or not self.elsewhere(grid, kinds, arguments, device):
            self.run(grid, bound, device)

    def run(self, grid: Sequence[int], arguments: Sequence[Bound], device: torch.device) -> None:
        outputs, inputs = self._storages(arguments, device)
        places = self.operands(list(outputs), list(inputs))
        words = [
            (-1, number)
            if tensor is None
            else (places[storage_of(tensor)], int(tensor.storage_offset()) * tensor.element_size() + number)
            for tensor, number in arguments
        ]
        if _C.is_recording():  # memory of a recording is not the device's
            program, digest = self.with_arguments(words, grid)
            program = program.to(device)
        else:
            program, digest = self._kept(words, grid, device)
        torch.ops.atalla.tile_program(
            list(outputs.values()), list(inputs.values()), program, list(grid), digest, self.program.reads_addresses
        )

    def operands(self, outputs: Sequence[int], inputs: Sequence[int]) -> dict[int, int]:
        """The operand of each of these memories. Raises ValueError for more of them than a launch takes."""
        whole_memory = self.program.reads_addresses
        most, found = MOST_TENSORS - whole_memory, len(outputs) + len(inputs)
        if found > most:
            raise ValueError(
                f"{self.program.name}: expected at most {most} tensors with memory of their own, got {found}"
            )
        places = {key: i for i, key in enumerate(outputs)}
        return places | {key: len(outputs) + whole_memory + i for i, key in enumerate(inputs)}

    def _kept(self, words: Sequence[Word], grid: Sequence[int], device: torch.device) -> tuple[torch.Tensor, int]:
        stream = torch.accelerator.current_stream(device.index).stream_id  # in whose order its memory is freed
        key = (tuple(words), tuple(grid), device.index, stream)
        entry = self.captured.get(key) or self.kept.get(key)
        capturing = _C.is_current_stream_capturing()
        if entry is None:
            program, digest = self.with_arguments(words, grid)
            # A graph refers to the program's memory: it is not of the graph's pool, and is written before the replay.
            with torch.Stream(device) if capturing else contextlib.nullcontext():
                entry = program.to(device), digest
        if capturing:
            self.captured[key] = entry
        elif key not in self.captured and key not in self.kept:
            if len(self.kept) >= KEPT:
                del self.kept[next(iter(self.kept))]
            self.kept[key] = entry
        return entry

    def _storages(
        self, arguments: Sequence[Bound], device: torch.device
    ) -> tuple[dict[int, torch.Tensor], dict[int, torch.Tensor]]:
        """A tensor of each storage that the program may write, and of each that it only reads."""
        outputs: dict[int, torch.Tensor] = {}
        inputs: dict[int, torch.Tensor] = {}
        for i, (tensor, _) in enumerate(arguments):
            if tensor is None:
                continue
            if tensor.device != device:
                raise ValueError(
                    f"Pointer argument (at {i}) cannot be accessed from Triton: expected a tensor on {device}, got one "
                    f"on {tensor.device}"
                )
            (outputs if i in self.program.written else inputs)[storage_of(tensor)] = tensor
        return outputs, {key: t for key, t in inputs.items() if key not in outputs}

    def with_arguments(self, words: Sequence[Word], grid: Sequence[int]) -> tuple[torch.Tensor, int]:
        """The program's words, and the launch's digest, by which `known` has the launch."""
        filled = self.words.clone()
        for i, argument in enumerate(self.program.arguments):
            at = self.argument_offset + len(ArgumentWords.kinds) * i
            filled[at + 1], filled[at + 2] = words[argument.position]
        return filled, self._digest(words, grid)

    def _digest(self, words: Sequence[Word], grid: Sequence[int]) -> int:
        """63 bits that name what decides the cycles: the program, its integers, and the grid. Fractions do not, nor do
        places in memory, other than those of two arguments in one tensor's memory to each other."""
        first: dict[int, int] = {}
        for operand, number in words:
            first[operand] = min(number, first.get(operand, number))
        counted = [(operand, number - first[operand] if operand >= 0 else number) for operand, number in words]
        for argument in self.program.arguments:
            if self.program.slots[argument.value][0].is_floating_point:
                counted[argument.position] = -1, 0
        text = repr((self.key, tuple(grid), counted))
        digest = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little") >> 1
        if digest not in known:
            if len(known) >= MOST_KNOWN:
                known.pop(next(iter(known)), None)
            known[digest] = KnownLaunch(self.ttir, counted, tuple(grid))
        return digest


@dataclasses.dataclass(frozen=True)
class KnownLaunch:
    """What the code of a launch is made of, and its arguments."""

    ttir: str
    words: Sequence[Word]
    grid: tuple[int, ...]


known: dict[int, KnownLaunch] = {}  # by digest
named: dict[str, LoadedProgram] = {}  # programs of graphs, by their keys


def storage_of(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _run_copy(
    tensors: Sequence[torch.Tensor],
    written: Sequence[int],
    program: str,
    operands: Sequence[int],
    numbers: Sequence[int],
    grid: Sequence[int],
) -> list[torch.Tensor]:
    held = [clone_preserve_strides(t) if i in written else t for i, t in enumerate(tensors)]
    arguments = [(None if i < 0 else held[i], number) for i, number in zip(operands, numbers, strict=True)]
    named[program].run(grid, arguments, held[0].device)
    return [held[i] for i in written]


def _meta_copy(tensors: Sequence[torch.Tensor], written: Sequence[int], *_: Any) -> list[torch.Tensor]:
    return [clone_preserve_strides(tensors[i]) for i in written]


_library.impl("tile_program_copy", _run_copy, "PrivateUse1")
_library.impl("tile_program_copy", _meta_copy, "Meta")


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
