# SPDX-License-Identifier: BSD-3-Clause
"""What the selectors of single launches work with: regions, constants and calls of the network under construction."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from torch_atalla.isa.geometry import LANES

from ...program.ir import Buffer, BufferKind, Launch, LinearProgram, Operand
from ...program.rules import Rules
from ...schedule.chip_model import ChipModel
from .image import Address
from .kernels.pointwise import Unsupported
from .kernels.tiling import ELEMENT, Call
from .network import ALIGN, Network, element_bytes
from .ports import RawOperand
from .vir import Builder

selects = Rules()  # what selects kernels for launches: functions of a Selection and a Launch, by kernel


def _same_bytes(one: torch.dtype, other: torch.dtype) -> bool:
    """Whether a buffer of the one can be seen as the other: both have as many bytes in DRAM as in the program."""
    return element_bytes(one) * other.itemsize == element_bytes(other) * one.itemsize


def _in_lines(operand: Operand) -> bool:
    """Whether the innermost dimension, and the distances of all others, are multiples of 32 BF16."""
    steps = sorted((step, size) for step, size in zip(operand.strides, operand.sizes) if size > 1 and step)
    if not steps or steps[0][0] != 1 or steps[0][1] % LANES or element_bytes(operand.dtype) != 2:
        return False
    return operand.offset // operand.dtype.itemsize % LANES == 0 and all(step % LANES == 0 for step, _ in steps[1:])


class Selection:
    """What the selectors of single launches work with."""

    def __init__(
        self,
        program: LinearProgram,
        sources: Mapping[str, str],
        like: Selection | None = None,
        chip: ChipModel | None = None,
        parts: int | None = None,
    ) -> None:
        """like: the selection of the same program for other sizes. Both then have one block of constants, and each
        function is compiled once. chip: among whose cores launches are divided, if it has several. parts: into which
        each launch is divided; None: as pays most."""
        self.program, self.sources = program, sources  # sources: Python lines of graph nodes
        self.network = Network()
        kinds = {buffer.index: buffer.kind for buffer in program.buffers}
        self.network.constant_buffers = {index for index, kind in kinds.items() if kind is BufferKind.CONSTANT}
        self.image = self.network.image
        self.memory = chip  # that holds the weights
        self.network.groups = self.groups = 0 if chip is None else chip.groups
        self.chip = chip if chip is not None and chip.program_cores > 1 else None
        self.parts = parts
        self.image.cores = 1 if self.chip is None else self.chip.program_cores
        self.known: dict[bytes, str] = {}  # regions of constants by their bytes
        self.packed: dict[Hashable, str] = {}  # and by what they were made from
        if like is not None:
            self.network.constants, self.network.constant_offsets = (
                like.network.constants,
                like.network.constant_offsets,
            )
            self.known, self.packed, self.image.compiled = like.known, like.packed, like.image.compiled
        self.sizes: dict[str, int] = {}  # bytes of temporaries
        self.dtypes = {port.operand.buffer: port.operand.dtype for port in program.inputs}  # of a buffer's elements
        self.node = ""
        self.taps: dict[int, Any] = {}  # select/max_pool.py: of buffers of positions, which are not written
        self.whole_lines: dict[str, bool] = {}  # temporaries: whether all operands are lines of whole scratchpad rows

    # -- operands -----------------------------------------------------------------------------------------------------
    def region(self, operand: Operand) -> str:
        buffer = self.program.buffers[operand.buffer]
        name = f"{buffer.kind.value}{buffer.index}"
        dtype = self.dtypes.setdefault(operand.buffer, operand.dtype)
        if dtype != operand.dtype and not _same_bytes(dtype, operand.dtype):
            raise Unsupported(f"a view of {dtype} as {operand.dtype}, whose elements have other bytes in DRAM")
        if buffer.kind is BufferKind.CONSTANT and name not in self.network.constant_offsets:
            self.place_constant(name, self.tensor_bytes(operand))
        elif buffer.kind is BufferKind.TEMPORARY and name not in self.sizes:
            self.sizes[name] = buffer.nbytes // operand.dtype.itemsize * element_bytes(operand.dtype)
            self.network.regions[operand.buffer] = name
        return name

    def address(self, operand: Operand | Address, elements: int = 0) -> Address:
        """Of element `elements` (in memory order) of the operand, or of BF16 numbers at an address."""
        if isinstance(operand, Address):
            return replace(operand, offset=operand.offset + ELEMENT * elements)
        size = operand.dtype.itemsize if isinstance(operand, RawOperand) else element_bytes(operand.dtype)
        region = self.region(operand)
        if self.program.buffers[operand.buffer].kind is BufferKind.TEMPORARY:
            self.whole_lines[region] = self.whole_lines.get(region, True) and _in_lines(operand)
        return Address(region, (operand.offset // operand.dtype.itemsize + elements) * size)

    def is_constant(self, operand: Operand) -> bool:
        return self.program.buffers[operand.buffer].kind is BufferKind.CONSTANT

    def tensor(self, operand: Operand) -> torch.Tensor:
        """The values of a constant operand."""
        return self.program.buffers[operand.buffer].view(operand)

    def tensor_bytes(self, operand: Operand) -> bytes:
        whole = self.program.buffers[operand.buffer].tensor
        assert whole is not None
        dense = torch.as_strided(whole, (whole.numel(),), (1,), whole.storage_offset())
        return values_bytes(dense)

    def is_read(self, buffer: int) -> bool:
        """Whether any launch reads the buffer."""
        return any(operand.buffer == buffer for inst in self.program.instructions for operand in inst.reads())

    # -- new memory ---------------------------------------------------------------------------------------------------
    def new_operand(
        self, sizes: tuple[int, ...], strides: tuple[int, ...], elements: int, dtype: torch.dtype = torch.bfloat16
    ) -> Operand:
        """On a new temporary of so many elements."""
        buffer = Buffer(len(self.program.buffers), BufferKind.TEMPORARY, "", elements * dtype.itemsize)
        self.program.buffers.append(buffer)
        return Operand(buffer.index, 0, sizes, strides, dtype)

    def new(
        self, sizes: Sequence[int], order: Iterable[int] | None = None, dtype: torch.dtype = torch.bfloat16
    ) -> Operand:
        """On a new temporary without gaps. order: its dimensions from the outermost to the innermost; None: as they
        are."""
        strides, step = [0] * len(sizes), 1
        for d in reversed([*(range(len(sizes)) if order is None else order)]):
            strides[d] = step
            step *= sizes[d]
        return self.new_operand(tuple(sizes), tuple(strides), step, dtype)

    def constant(self, values: torch.Tensor) -> str:
        """A region with these values, stored once however often they are asked for."""
        data = values_bytes(values.contiguous().view(-1))
        if data not in self.known:
            self.known[data] = f"packed{len(self.known)}"
            self.place_constant(self.known[data], data)
        return self.known[data]

    def constant_of(self, source: Hashable, make: Callable[[], torch.Tensor]) -> str:
        """A region with the values that `make` gives. It is called once for equal sources."""
        if source not in self.packed:
            self.packed[source] = self.constant(make())
        return self.packed[source]

    def place_constant(self, name: str, data: bytes) -> None:
        block = self.network.constants
        block.extend(bytes(-len(block) % ALIGN))
        self.network.constant_offsets[name] = len(block)
        block.extend(data)

    def calls(
        self, kernel: Callable[..., Builder], planned: Iterable[Call], places: Mapping[str, Operand | Address | None]
    ) -> None:
        """kernel: a function from variant to Builder. places: what its addresses name; None for those that it does not
        use."""
        for variant, words, starts in planned:
            given = {name: self.address(x, starts.get(name, 0)) for name, x in places.items() if x is not None}
            build = partial(kernel, variant)
            self.image.call(variant.name, build, {**words, **given}, self.node, kernel, variant)


def values_bytes(values: torch.Tensor) -> bytes:
    """As the program keeps them, without a gap."""
    if element_bytes(values.dtype) == 2:
        values = values.to(torch.bfloat16)
        return values.contiguous().view(torch.int16).numpy().tobytes()
    if element_bytes(values.dtype) == 4:
        values = values.to(torch.int32)
    return values.contiguous().numpy().tobytes()


def operands_of(launch: Launch, inputs: int = 1) -> list[Operand]:
    """The first result of a launch, and its first inputs, which have to be there."""
    found = [operand for operand in (launch.outputs[0], *launch.inputs[:inputs]) if isinstance(operand, Operand)]
    assert len(found) == 1 + inputs
    return found


def check_dtypes(operands: Iterable[Operand], *, integers: bool = False) -> None:
    """Raises Unsupported unless every operand is BF16 in DRAM; integers: or an integer."""
    wide = [x for x in operands if element_bytes(x.dtype) != 2]
    if wide and not integers:
        raise Unsupported(f"an operand of {wide[0].dtype}; expected bfloat16")
