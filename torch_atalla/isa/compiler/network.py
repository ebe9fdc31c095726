# SPDX-License-Identifier: BSD-3-Clause
"""A whole network as one program: calls of kernels for every launch of a linear program, and a place for every buffer.

Numbers are BF16 in DRAM. A truth value or an FP32 temporary of the linear program becomes a BF16 as well (0 or 1 for
the former); 64-bit integers are read where they are, by the scalar core.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import torch

from ...export.ir import BufferKind, HostCall, Launch, LinearProgram, Operand
from ..program import Program
from .allocate import OutOfRegisters
from .image import Address, Image
from .kernels.pointwise import Unsupported

ALIGN = 64
SLACK = 4096  # bytes behind the arena and the constants that a tile may touch


class NoProgramError(NotImplementedError):
    """A launch has no Atalla program; the message names the kernel, the graph node and the reason."""


@dataclass
class Port:
    """An input or output as the caller sees it: sizes, strides and offset in elements, dtype, and its region."""

    name: str
    region: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype
    nbytes: int
    offset: int = 0


def element_bytes(dtype: torch.dtype) -> int:
    """Bytes of an element as the program keeps it."""
    if dtype in (torch.int64, torch.int32):
        return dtype.itemsize
    if dtype in (torch.bfloat16, torch.bool, torch.float32):
        return 2
    raise Unsupported(f"dtype {str(dtype).removeprefix('torch.')}")


def _same_bytes(one: torch.dtype, other: torch.dtype) -> bool:
    """Whether a buffer of the one can be seen as the other: both have as many bytes in DRAM as in the program."""
    return element_bytes(one) * other.itemsize == element_bytes(other) * one.itemsize


@dataclass
class Network:
    """The result. `regions` of constants and temporaries are offsets in two blocks, `constants` and an arena."""

    image: Image = field(default_factory=Image)
    inputs: list[Port] = field(default_factory=list)
    outputs: list[Port] = field(default_factory=list)
    constants: bytearray = field(default_factory=bytearray)
    constant_offsets: dict[str, int] = field(default_factory=dict)
    arena_bytes: int = 0
    arena_offsets: dict[str, int] = field(default_factory=dict)
    complete: dict[int, int] = field(default_factory=dict)  # buffer -> calls after which all of it is written

    def code(self) -> Program:
        return self.image.link()

    def table(self, constants: int, arena: int, table: int, ports: Mapping[str, int]) -> bytes:
        """The table of calls, after `code`, for the addresses of the four kinds of memory; `ports` by region name."""
        regions = {"table": table, **ports}
        regions |= {name: constants + offset for name, offset in self.constant_offsets.items()}
        regions |= {name: arena + offset for name, offset in self.arena_offsets.items()}
        return self.image.table(regions)


class Selection:
    """What the selectors of single launches work with."""

    def __init__(self, program: LinearProgram) -> None:
        self.program = program
        self.network = Network()
        self.image = self.network.image
        self.sizes: dict[str, int] = {}  # bytes of temporaries
        self.dtypes = {port.operand.buffer: port.operand.dtype for port in program.inputs}  # of a buffer's elements
        self.known: dict[bytes, str] = {}
        self.node = ""
        self._count = 0

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
        return name

    def address(self, operand: Operand, elements: int = 0) -> Address:
        """Of element `elements` (in memory order) of the operand."""
        size = element_bytes(operand.dtype)
        return Address(self.region(operand), (operand.offset // operand.dtype.itemsize + elements) * size)

    def is_constant(self, operand: Operand) -> bool:
        return self.program.buffers[operand.buffer].kind is BufferKind.CONSTANT

    def tensor(self, operand: Operand) -> torch.Tensor:
        """The values of a constant operand."""
        whole = self.program.buffers[operand.buffer].tensor
        assert whole is not None
        flat = torch.empty(0, dtype=whole.dtype).set_(whole.untyped_storage())
        start = operand.offset // operand.dtype.itemsize + whole.storage_offset()
        return torch.as_strided(flat, operand.sizes, operand.strides, start)

    def tensor_bytes(self, operand: Operand) -> bytes:
        whole = self.program.buffers[operand.buffer].tensor
        assert whole is not None
        dense = torch.as_strided(whole, (whole.numel(),), (1,), whole.storage_offset())
        return values_bytes(dense)

    def is_read(self, buffer: int) -> bool:
        """Whether any launch reads the buffer."""
        return any(operand.buffer == buffer for inst in self.program.instructions for operand in inst.reads())

    # -- new memory ---------------------------------------------------------------------------------------------------
    def temporary(self, elements: int) -> str:
        self._count += 1
        name = f"scratch{self._count}"
        self.sizes[name] = elements * 2 + ALIGN
        return name

    def constant(self, values: torch.Tensor) -> str:
        """A region with these values, stored once however often they are asked for."""
        data = values_bytes(values.contiguous().view(-1))
        if data not in self.known:
            self.known[data] = f"packed{len(self.known)}"
            self.place_constant(self.known[data], data)
        return self.known[data]

    def place_constant(self, name: str, data: bytes) -> None:
        block = self.network.constants
        block.extend(bytes(-len(block) % ALIGN))
        self.network.constant_offsets[name] = len(block)
        block.extend(data)

    def call(self, kernel: object, variant: object, words: Mapping[str, int | Address], name: str = "") -> None:
        """kernel: a function from variant to Builder."""
        self.image.call(variant.name, lambda: kernel(variant), words, self.node)  # type: ignore[attr-defined,operator]


def values_bytes(values: torch.Tensor) -> bytes:
    """As the program keeps them, without a gap."""
    if element_bytes(values.dtype) == 2:
        values = values.to(torch.bfloat16)
        return values.contiguous().view(torch.int16).numpy().tobytes()
    return values.contiguous().numpy().tobytes()


def compile_network(program: LinearProgram) -> Network:
    """The program of a linear program. NoProgramError names the first launch that has none."""
    from .fusion import fuse
    from .select import SELECTORS, TAKE_INTEGERS
    from .select.pointwise import no_steps

    selection = Selection(program)
    for launch in fuse(program):
        if isinstance(launch, HostCall):
            raise NoProgramError(f"no Atalla program for {', '.join(launch.ops)} (a fallback segment)")
        selection.node = launch.node
        select = SELECTORS.get(launch.kernel) or (no_steps if "formula" in launch.contract.traits else None)
        where = f"kernel {launch.kernel}" + (f" (node {launch.node})" if launch.node else "")
        if select is None:
            raise NoProgramError(f"no Atalla program for {where}: no such kernel is written")
        try:
            if not _is_empty(launch):
                check_dtypes((*launch.reads(), *launch.writes()), integers=select in TAKE_INTEGERS)
                select(selection, launch)
        except (Unsupported, ValueError, OutOfRegisters) as error:
            raise NoProgramError(f"no Atalla program for {where}: {error}") from error
        except (AssertionError, ArithmeticError, LookupError, TypeError) as error:
            reason = f"the code generator failed with {type(error).__name__}: {error}"
            raise NoProgramError(f"no Atalla program for {where}: {reason}") from error
        for operand in launch.writes():
            selection.network.complete[operand.buffer] = len(selection.image.calls)
    network = selection.network
    network.inputs = [_port(selection, "input", port.name, port.operand) for port in program.inputs]
    network.outputs = [_port(selection, "output", port.name, port.operand) for port in program.outputs]
    _place_temporaries(selection)
    network.constants.extend(bytes(SLACK))
    return network


def check_dtypes(operands: Iterable[Operand], *, integers: bool = False) -> None:
    """Raises Unsupported unless every operand is BF16 in DRAM; integers: or an integer."""
    wide = [x for x in operands if element_bytes(x.dtype) != 2]
    if wide and not integers:
        raise Unsupported(f"an operand of {wide[0].dtype}; expected bfloat16")


def _is_empty(launch: Launch) -> bool:
    """Whether the launch computes nothing. Loops of the kernels run at least once, so that none may be selected."""
    if launch.writes() and all(0 in operand.sizes for operand in launch.writes()):
        return True
    for operand in (*launch.reads(), *launch.writes()):
        if 0 in operand.sizes:
            raise Unsupported(f"an operand of {list(operand.sizes)}, which has no elements")
    return False


def _port(selection: Selection, what: str, name: str, operand: Operand) -> Port:
    if operand.dtype not in (torch.bfloat16, torch.int64, torch.int32):
        raise NoProgramError(
            f"no Atalla program for {what} {name} of {operand.dtype}; expected bfloat16 or integers (convert the model "
            "to bfloat16)"
        )
    buffer = selection.program.buffers[operand.buffer]
    region = f"{buffer.kind.value}{buffer.index}"
    return Port(
        name,
        region,
        operand.sizes,
        operand.strides,
        operand.dtype,
        buffer.nbytes,
        operand.offset // operand.dtype.itemsize,
    )


def _place_temporaries(selection: Selection) -> None:
    """Largest first, each at the lowest offset that is free from its first call to its last."""
    life: dict[str, list[int]] = {}
    for index, call in enumerate(selection.image.calls):
        for word in call.words.values():
            if isinstance(word, Address) and word.region in selection.sizes:
                life.setdefault(word.region, [index, index])[1] = index
    placed: list[tuple[int, int, int, int]] = []  # offset, end, first, last
    network = selection.network
    for name in sorted(life, key=lambda n: (-selection.sizes[n], life[n][0])):
        first, last = life[name]
        size = -(-selection.sizes[name] // ALIGN) * ALIGN
        offset = 0
        for begin, end, born, dead in sorted(placed):
            if born <= last and first <= dead and begin < offset + size and offset < end:
                offset = end
        placed.append((offset, offset + size, first, last))
        network.arena_offsets[name] = offset
    network.arena_bytes = max((end for _, end, _, _ in placed), default=0) + SLACK
