# SPDX-License-Identifier: BSD-3-Clause
"""A loadable's Atalla code in a machine with DRAM of its own: for profiles and traces, without a device."""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

import torch

from torch_atalla.isa import konata
from torch_atalla.isa.engine import Machine
from torch_atalla.isa.profile import CallSite, Profile, profile

from .code import Layout, port_layouts
from .description import describe
from .file.call_sites import KEY, load_calls
from .file.code_section import MethodCode, find
from .file.format import Region

_ALIGNMENT = 4096  # of a region, and least distance to the next: a tile may touch bytes behind its tensor


class CodeMachine:
    """One run of a file's code.

    inputs: CPU tensors in the order of the file's inputs; None: random numbers, and 0 for integers.
    Raises ValueError for a file without Atalla code, with several methods of code, or for inputs that do not match.

        run = CodeMachine("model.atl")
        print(run.profile())
        outputs = run.outputs()
    """

    def __init__(self, path: str | os.PathLike, inputs: Sequence[torch.Tensor] | None = None, seed: int = 0) -> None:
        data = describe(os.fspath(path))  # validates
        section = find(Path(path).read_bytes())
        if section is None:
            raise ValueError(f'{path}: the file has no Atalla code; save it with engine="isa"')
        if len(section.methods) != 1:
            raise ValueError(f"{path}: expected Atalla code of one method, found {len(section.methods)}")
        (method,) = section.methods
        in_layouts, self._out_layouts = port_layouts(data)
        given = random_inputs([(dtype, sizes) for _, dtype, sizes, _ in in_layouts], seed) if inputs is None else inputs
        contents = [_bytes_of(layout, tensor) for layout, tensor in zip(in_layouts, given, strict=True)]
        sizes = {(Region.TABLE, 0): 4 * len(method.words), (Region.CONSTANTS, 0): len(section.constants)}
        sizes |= {(Region.ARENA, 0): method.arena_bytes}
        sizes |= {(Region.INPUT, i): len(content) for i, content in enumerate(contents)}
        sizes |= {(Region.OUTPUT, i): len(_bytes_of(layout)) for i, layout in enumerate(self._out_layouts)}
        sizes |= {
            (Region.STATE, i): data["storages"][data["values"][state["value"]]["storage"]]["bytes"]
            for i, state in enumerate(data["states"])
        }
        self._places, end = {}, _ALIGNMENT
        for region, size in sizes.items():
            self._places[region] = end
            end += (-(-size // _ALIGNMENT) + 1) * _ALIGNMENT
        table = self._places[Region.TABLE, 0]
        memory = {table: self._table(method)}
        memory[self._places[Region.CONSTANTS, 0]] = section.constants
        memory |= {self._places[Region.INPUT, i]: content for i, content in enumerate(contents)}
        self.machine = Machine(method.program(), memory, args=(table,), dram_bytes=end)
        addresses = call_addresses(method)
        sites = load_calls(data["metadata"], KEY, len(addresses))
        self.calls: list[tuple[int, CallSite]] = list(zip(addresses, sites))

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


def call_addresses(method: MethodCode) -> list[int]:
    """Return the address of each call's function: the first word of the descriptor to which the call's word points."""
    count = method.words.index(0, sum(region == Region.TABLE for _, region, _, _ in method.relocations))
    places = {word: offset for word, region, _, offset in method.relocations if region == Region.TABLE}
    return [method.words[places[call] // 4] for call in range(count)]


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
