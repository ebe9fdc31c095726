# SPDX-License-Identifier: BSD-3-Clause
"""A loadable's Atalla code in a machine with DRAM of its own: for profiles and traces."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

import torch

from torch_atalla.isa import konata
from torch_atalla.isa.engine import Machine
from torch_atalla.isa.profile import Profile, profile

from .code import Layout, port_layouts
from .description import describe
from .file.call_sites import KEY, load_calls
from .file.code_section import MethodCode, find
from .file.container import Container
from .file.format import FORMATS, Region, Section
from .leaves import method_key

_ALIGNMENT = 4096  # of a region, and least distance to the next: a tile may touch bytes behind its tensor


class CodeMachine:
    """One run of the code of a method, with the sizes that the file is written for: of bounded ones, the largest.
    Mutable buffers have their initial values. One core runs the code, also of several.

    method: name; None: the first method. inputs: CPU tensors in the order of the method's inputs; None: random numbers,
    and 0 for integers. chip: the device whose chip runs the code; None: the built-in one. Raises ValueError if the
    method has no Atalla code, or for inputs that do not match.

        run = CodeMachine("model.atl")
        print(run.profile())
        outputs = run.outputs()
    """

    def __init__(
        self,
        path: str | os.PathLike,
        inputs: Sequence[torch.Tensor] | None = None,
        *,
        method: str | None = None,
        seed: int = 0,
        chip: int | None = 0,
    ) -> None:
        data, content = describe(os.fspath(path)), Path(path).read_bytes()  # describe validates
        names = [record["name"] for record in data["methods"]]
        name = names[0] if method is None else method
        section = find(content)
        number = names.index(name) if name in names else -1
        sizes = tuple(symbol["planned"] for symbol in data["symbols"] if symbol["method"] == number)
        matching = (
            (item for item in section.methods if (item.method, item.symbols) == (number, sizes)) if section else ()
        )
        code = next(iter(matching), None)
        if section is None or code is None:
            raise ValueError(f'{path}: method {name!r} has no Atalla code; save the file with engine="isa"')
        in_layouts, self._out_layouts = port_layouts(data, number)
        given = random_inputs([(dtype, sizes) for _, dtype, sizes, _ in in_layouts], seed) if inputs is None else inputs
        contents = {(Region.TABLE, 0): bytes(4 * len(code.words)), (Region.CONSTANTS, 0): section.constants}
        contents[Region.ARENA, 0] = bytes(code.arena_bytes)
        for i, (layout, tensor) in enumerate(zip(in_layouts, given, strict=True)):
            contents[Region.INPUT, i] = _bytes_of(layout, tensor)
        contents |= {(Region.OUTPUT, i): _bytes_of(layout) for i, layout in enumerate(self._out_layouts)}
        contents |= {(Region.STATE, i): value for i, value in enumerate(_initial_states(data, content))}
        self._places, end = {}, _ALIGNMENT
        for region, value in contents.items():
            self._places[region] = end
            end += (-(-len(value) // _ALIGNMENT) + 1) * _ALIGNMENT
        contents[Region.TABLE, 0] = self._table(code)
        memory = {self._places[region]: value for region, value in contents.items()}
        self.machine = Machine(code.program(), memory, args=(self._places[Region.TABLE, 0],), dram_bytes=end, chip=chip)
        sites = load_calls(data["metadata"], method_key(KEY, name, number))
        self.calls = list(zip(call_addresses(code, len(sites)), sites))

    def _table(self, method: MethodCode) -> bytes:
        """The table of calls for the addresses of this machine's memory."""
        words = list(method.words)
        for word, region, index, offset in method.relocations:
            words[word] = (self._places[region, index] + offset) & 0xFFFFFFFF
        return struct.pack(f"<{len(words)}I", *words)

    def profile(self) -> Profile:
        """Run the program, and return where its cycles go."""
        return profile(self.machine, self.calls)

    def konata(self, out: TextIO, max_packets: int = 1000, first_call: int = 0) -> int:
        """Write the pipeline trace of up to `max_packets` packets (konata.trace). Return the packets written."""
        return konata.trace(self.machine, out, self.calls, max_packets, first_call)

    def outputs(self) -> list[torch.Tensor]:
        """Return the outputs after the run."""
        found = []
        for i, (_, dtype, sizes, strides) in enumerate(self._out_layouts):
            result = torch.empty_strided(sizes, strides, dtype=dtype)
            storage = result.untyped_storage()
            if storage.nbytes():
                raw = self.machine.dram(self._places[Region.OUTPUT, i], storage.nbytes())
                torch.empty(0, dtype=torch.uint8).set_(storage).copy_(torch.from_numpy(raw))
            found.append(result)
        return found


def call_addresses(code: MethodCode, count: int) -> list[int]:
    """Return the address of each call's function: the first word of the descriptor to which the call's word points."""
    places = {word: offset for word, region, _, offset in code.relocations if region == Region.TABLE}
    step = 2 if code.divided else 1  # a call's core follows
    if count and (len(places) != count or code.words[step * count] != 0):
        raise ValueError(f"the metadata names {count} calls; the table of the code has {len(places)}")
    return [code.words[places[step * call] // 4] for call in range(count)]


def _initial_states(data: dict[str, Any], content: bytes) -> Iterator[bytes]:
    """The first bytes of each mutable buffer."""
    container = Container.read(content)
    weights = container.find(Section.WEIGHTS) or b""
    records = FORMATS[Section.STATES].iter_unpack(container.find(Section.STATES) or b"")
    for *_, value, flags, initial in records:
        nbytes = data["storages"][data["values"][value]["storage"]]["bytes"]
        yield weights[initial : initial + nbytes] if flags & 1 else bytes(nbytes)


def random_inputs(types: Sequence[tuple[torch.dtype, tuple[int, ...]]], seed: int) -> list[torch.Tensor]:
    """Normally distributed floating-point tensors; 0 for integers, which is a valid index."""
    generator = torch.Generator().manual_seed(seed)
    return [
        torch.randn(sizes, generator=generator).to(dtype)
        if dtype.is_floating_point
        else torch.zeros(sizes, dtype=dtype)
        for dtype, sizes in types
    ]


def _bytes_of(layout: Layout, tensor: torch.Tensor | None = None) -> bytes:
    """The storage of a tensor in this layout; without a tensor, zeros."""
    name, dtype, sizes, strides = layout
    result = torch.empty_strided(sizes, strides, dtype=dtype)
    storage = torch.empty(0, dtype=torch.uint8).set_(result.untyped_storage()).zero_()
    if tensor is not None:
        if tensor.dtype != dtype or tuple(tensor.shape) != sizes:
            raise ValueError(
                f"input {name}: expected {dtype} of {list(sizes)}, found {tensor.dtype} of {list(tensor.shape)}"
            )
        result.copy_(tensor)
    return storage.numpy().tobytes()
