# SPDX-License-Identifier: BSD-3-Clause
"""Running programs: `run` for a whole run with a memory of its own, `Machine` to look inside, `launch` on a device."""

from __future__ import annotations

import ctypes
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Protocol

import numpy as np

from torch_atalla.device.energy import Energy, energy_of
from torch_atalla.driver import c_abi
from torch_atalla.driver import isa_library as lib
from torch_atalla.driver.extension import _C
from torch_atalla.driver.isa_library import ExecutionError

from .disassembler import format_packet
from .instruction import Instruction
from .program import Program
from .table import PACKET_BYTES, REGISTER_BASE, register_name

DEFAULT_DRAM_BYTES = 1 << 24
_ROW_BYTES = 128  # of a scratchpad row as the machine keeps it: 32 FP32
_BUILTIN_SCRATCHPAD_BYTES = 1 << 20


@dataclass(frozen=True)
class Stats:
    """What a run did. Cycles are the cycle model's (docs/concepts/isa-engine.md); 0 when it ran without timing.

    unit_instructions, unit_cycles: per unit, instructions and cycles in which it was occupied (`sdma`: of the engines).
    stall_cycles: cycles without issue by reason; a unit's name stands for waiting for a result of that unit.
    network_link_bytes, network_router_bytes: bytes of tiles times the links and the routers between core and memory.
    instruction_bytes, data_bytes: of the lines that the caches fetched.
    energy: with standby and leakage over `cycles`.
    """

    packets: int = 0
    instructions: int = 0
    cycles: int = 0
    dram_bytes_read: int = 0
    dram_bytes_written: int = 0
    transfers: int = 0
    services: int = 0
    branches_taken: int = 0
    macs: int = 0
    bus_cycles: int = 0
    unit_instructions: dict[str, int] = field(default_factory=dict)
    unit_cycles: dict[str, int] = field(default_factory=dict)
    stall_cycles: dict[str, int] = field(default_factory=dict)
    dram_activates: int = 0  # rows that a bank-level DRAM opened, and its column accesses
    dram_reads: int = 0
    dram_writes: int = 0
    network_link_bytes: int = 0
    network_router_bytes: int = 0
    instruction_bytes: int = 0
    data_bytes: int = 0
    energy: Energy = Energy()

    def utilisation(self, unit: str) -> float:
        """Share of the cycles in which the unit was occupied."""
        return self.unit_cycles.get(unit, 0) / self.cycles if self.cycles else 0.0

    def to_json(self) -> dict[str, Any]:
        """Return the statistics as a dictionary of JSON types."""
        return asdict(self)

    def __str__(self) -> str:
        slots = self.instructions / (4 * self.packets) if self.packets else 0
        lines = [
            f"{self.packets} packets, {self.instructions} instructions, {slots:.0%} of the slots, {self.cycles} cycles",
            f"DMA {self.dram_bytes_read} bytes read, {self.dram_bytes_written} written, {self.transfers} transfers",
            "units   " + ", ".join(f"{u} {self.utilisation(u):.1%}" for u, n in self.unit_instructions.items() if n),
            "stalls  " + (", ".join(f"{r} {n}" for r, n in self.stall_cycles.items() if n) or "none"),
        ]
        return "\n".join(lines)


def stats_of(raw: c_abi.atalla_isa_stats) -> Stats:
    library = lib.library()
    names = {"unit_instructions": library.units, "unit_cycles": library.units, "stall_cycles": library.stalls}
    values: dict[str, Any] = {each.name: getattr(raw, each.name) for each in fields(Stats)}
    values |= {name: dict(zip(of, values[name])) for name, of in names.items()}
    return Stats(**values | {"energy": energy_of(raw.energy)})


class Code:
    """A program decoded by the engine; may be run many times. chip: a handle of the device ABI whose chip it is for, 0
    for the built-in one, or the text of a chip file."""

    def __init__(self, program: Program, chip: int | str = 0):
        self.program = program
        self._library = lib.library()
        code = program.encode()
        self.handle = ctypes.c_void_p()
        api, given = self._library.api, (code.ctypes.data, len(code), ctypes.byref(self.handle))
        if isinstance(chip, str):
            self._library.check(api.program_create_for(chip.encode(), *given))
        else:
            self._library.check(api.program_create(chip, *given))

    def __del__(self) -> None:
        handle, self.handle = getattr(self, "handle", None), ctypes.c_void_p()
        if handle:
            self._library.api.program_destroy(handle)


class Array(Protocol):
    """An implementation of the systolic array, just reset, for one machine (`atalla_isa_array` of atalla_isa.h)."""

    @property
    def interface(self) -> c_abi.atalla_isa_array:
        """Its functions. They are valid as long as this object."""


class Machine:
    """One run of a program, step by step.

    machine = Machine(program, {0x4000: a, 0x8000: w}, args=(descriptor,))
    machine.breakpoint("loop"); machine.run(); print(machine.dump())

    memory: address -> array or bytes, put into DRAM beside the program's data. device: None for a machine with
    `dram_bytes` of its own, an ordinal for DRAM and scratchpads of that device (addresses from its DRAM's base). chip:
    of a machine with its own DRAM, the ordinal of the device whose chip it has, or the text of a chip file; None for
    the built-in chip.
    array: computes lw.vi and gemm.vv instead of the engine; cycles stay the cycle model's. cores: so many run the
    program; of several, each has its number in x18 and theirs in x19, and what can be read is core 0's.
    """

    def __init__(
        self,
        program: Program | Code,
        memory: Mapping[int, Any] | None = None,
        *,
        entry: str | int | None = None,
        args: Sequence[int] = (),
        profile: str = "simulator",
        timing: bool = True,
        dram_timing: str = "specified",
        dram_bytes: int = DEFAULT_DRAM_BYTES,
        device: int | None = None,
        chip: int | str | None = None,
        array: Array | None = None,
        cores: int = 1,
    ):
        self._library = lib.library()
        known: int | str = 0
        pad_bytes, self.array_size = _BUILTIN_SCRATCHPAD_BYTES, (32, 32)
        like = chip if device is None else device
        if isinstance(like, str):
            pad_bytes, self.array_size, known = *_sizes_of(like), like
        elif like is not None:
            properties = _C.properties(like)
            known, pad_bytes = _device_handle(like), properties["scratchpad_bytes"]
            self.array_size = (properties["array_rows"], properties["array_columns"])
        self._pad_rows = pad_bytes // 64
        self.code = program if isinstance(program, Code) else Code(program, known)
        handle = 0 if device is None else known
        self.program = self.code.program
        self.stop = "budget"
        start = entry if isinstance(entry, int) else self.program.entry(entry)
        params = lib.params(start, tuple(args), profile, timing, dram_timing, cores=cores)
        self._handle = ctypes.c_void_p()
        self._library.check(
            self._library.api.machine_create(
                handle, dram_bytes, self.code.handle, ctypes.byref(params), ctypes.byref(self._handle)
            )
        )
        if array is not None:
            self.replace_array(array)
        for address, content in {**self.program.data, **(memory or {})}.items():
            self.write_dram(address, content)

    def __del__(self) -> None:
        handle, self._handle = getattr(self, "_handle", None), ctypes.c_void_p()
        if handle:
            self._library.api.machine_destroy(handle)

    @property
    def name(self) -> str:
        """The name of the machine in the engine's errors."""
        return f"machine {self._handle.value}"

    # --- running

    def run(self, max_packets: int = 0) -> str:
        """Runs on (0: without limit) and says why it stopped: halted, budget, breakpoint, watchpoint.

        ExecutionError for a fault: the text names packet, instruction and address, and memory is as before the packet.
        """
        stop = ctypes.c_uint32()
        status = self._library.api.machine_run(self._handle, max_packets, ctypes.byref(stop))
        self.stop = lib.STOPS[stop.value] if not status or stop.value == 4 else "fault"
        self._library.check(status)
        return self.stop

    def step(self, packets: int = 1) -> str:
        """Run some packets. Returns the reason of the stop, as `run` does."""
        return self.run(packets)

    def replace_array(self, array: Array) -> None:
        """Compute lw.vi and gemm.vv with `array`. ExecutionError if the machine has run."""
        if self._library.api.abi_minor < 2:
            raise NotImplementedError("this device library does not let another array take the place of its own")
        self._library.check(self._library.api.machine_set_array(self._handle, ctypes.byref(array.interface)))
        self._array = array  # lives as long as the machine

    def breakpoint(self, where: str | int, enable: bool = True) -> None:
        """Stop before the packet at a label or a byte address."""
        address = where if isinstance(where, int) else self.program.entry(where)
        self._library.check(self._library.api.machine_break(self._handle, address, int(enable)))

    def watch(self, address: int, size: int, access: str = "rw", scratchpad: int | None = None) -> None:
        """Stop after a packet that reads (`r`), writes (`w`) or touches (`rw`) these bytes; `` removes the watch.

        Of DRAM, or of a scratchpad (whole rows of 64 bytes by the program's addresses).
        """
        bits = ("r" in access) | ("w" in access) << 1
        space = c_abi.ATALLA_ISA_DRAM
        if scratchpad is not None:
            space, first = c_abi.ATALLA_ISA_SCRATCHPAD, address // 64
            rows = math.ceil((address + size) / 64) - first
            address, size = (scratchpad * self._pad_rows + first) * _ROW_BYTES, rows * _ROW_BYTES
        self._library.check(self._library.api.machine_watch(self._handle, space, address, size, bits))

    def trace(self, max_packets: int = 1000) -> list[str]:
        """Runs on and lists each packet with the registers that it wrote: one line a packet, without cycles or
        addresses of the host, so that two runs diff well."""
        lines: list[str] = []
        while len(lines) < max_packets and self.stop not in ("halted", "fault"):
            pc = self.pc
            packet = self.program.packets[pc // PACKET_BYTES] if pc // PACKET_BYTES < len(self.program) else ()
            self.run(1)
            written = [r for slot in packet if isinstance(slot, Instruction) for r in slot.writes()]
            shown = ", ".join(f"{register_name(r)}={self._short(r)}" for r in written)
            lines.append(f"{pc:08X} {format_packet(packet)}" + (f"  # {shown}" if shown else ""))
        return lines

    def _short(self, register: int) -> str:
        if register >= REGISTER_BASE["m"]:
            return f"{self.m(register - REGISTER_BASE['m']):08X}"
        if register < REGISTER_BASE["v"]:
            return f"{self.x(register):08X}"
        bits = self.v(register - REGISTER_BASE["v"]).view(np.uint32)
        return f"[{bits[0]:08X} {bits[1]:08X} .. {bits[31]:08X} ^{int(np.bitwise_xor.reduce(bits)):08X}]"

    # --- state

    def _read(self, space: int, offset: int, size: int) -> np.ndarray:
        data = np.empty(size, np.uint8)
        self._library.check(self._library.api.machine_read(self._handle, space, offset, size, data.ctypes.data))
        return data

    def _write(self, space: int, offset: int, raw: np.ndarray) -> None:
        self._library.check(self._library.api.machine_write(self._handle, space, offset, raw.nbytes, raw.ctypes.data))

    @property
    def pc(self) -> int:
        """Byte address of the next packet (after a fault: of the one that faulted)."""
        return int(self._read(c_abi.ATALLA_ISA_PC, 0, 4).view(np.uint32)[0])

    @pc.setter
    def pc(self, address: int) -> None:
        self._write(c_abi.ATALLA_ISA_PC, 0, np.array([address], np.uint32))

    def x(self, register: int) -> int:
        """Return scalar register x`register` as an unsigned 32-bit integer."""
        return int(self._read(c_abi.ATALLA_ISA_X, register * 4, 4).view(np.uint32)[0])

    def set_x(self, register: int, value: int) -> None:
        """Set scalar register x`register` to the low 32 bits of a value."""
        self._write(c_abi.ATALLA_ISA_X, register * 4, np.array([value & 0xFFFFFFFF], np.uint32))

    def v(self, register: int) -> np.ndarray:
        """float32 of shape (32,)."""
        return self._read(c_abi.ATALLA_ISA_V, register * _ROW_BYTES, _ROW_BYTES).view(np.float32)

    def set_v(self, register: int, lanes: Any) -> None:
        """Set vector register v`register` to 32 values, or to one value in all lanes."""
        self._write(
            c_abi.ATALLA_ISA_V, register * _ROW_BYTES, np.broadcast_to(np.asarray(lanes, np.float32), 32).copy()
        )

    def m(self, register: int) -> int:
        """Return mask register m`register` as 32 bits."""
        return int(self._read(c_abi.ATALLA_ISA_M, register * 4, 4).view(np.uint32)[0])

    def set_m(self, register: int, value: int) -> None:
        """Set mask register m`register` to the low 32 bits of a value."""
        self._write(c_abi.ATALLA_ISA_M, register * 4, np.array([value & 0xFFFFFFFF], np.uint32))

    def registers(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """x as uint32 (256,), v as float32 (256, 32), m as uint32 (16,)."""
        x = self._read(c_abi.ATALLA_ISA_X, 0, 1024).view(np.uint32)
        v = self._read(c_abi.ATALLA_ISA_V, 0, 256 * _ROW_BYTES).view(np.float32).reshape(256, 32)
        return x, v, self._read(c_abi.ATALLA_ISA_M, 0, 64).view(np.uint32)

    def dram(self, address: int, size: int) -> np.ndarray:
        """uint8 of `size` bytes at an address as the program sees it."""
        return self._read(c_abi.ATALLA_ISA_DRAM, address, size)

    def write_dram(self, address: int, content: Any) -> None:
        """Write bytes or an array to DRAM, from a byte address on."""
        raw = (
            content if isinstance(content, (bytes, bytearray, memoryview)) else np.ascontiguousarray(content).tobytes()
        )
        self._write(c_abi.ATALLA_ISA_DRAM, address, np.frombuffer(raw, np.uint8))

    def scratchpad(self, sid: int, row: int, rows: int = 1) -> np.ndarray:
        """float32 of shape (rows, 32); a row is 64 bytes of the program's addresses."""
        start = (sid * self._pad_rows + row) * _ROW_BYTES
        return self._read(c_abi.ATALLA_ISA_SCRATCHPAD, start, rows * _ROW_BYTES).view(np.float32).reshape(rows, 32)

    def write_scratchpad(self, sid: int, row: int, values: Any) -> None:
        """Write FP32 values to scratchpad `sid`, from a row on."""
        self._write(
            c_abi.ATALLA_ISA_SCRATCHPAD,
            (sid * self._pad_rows + row) * _ROW_BYTES,
            np.ascontiguousarray(values, np.float32),
        )

    def weights(self) -> np.ndarray:
        """The weight buffer: float32 of shape (array.rows, array.columns) of the chip, row k, column n."""
        rows, columns = self.array_size
        return self._read(c_abi.ATALLA_ISA_WEIGHTS, 0, 4 * rows * columns).view(np.float32).reshape(columns, rows).T

    def dump(self) -> str:
        """Registers that are not 0, as text that diffs well."""
        x, v, m = self.registers()
        lines = [f"pc {self.pc:08X}"]
        lines += [f"x{i} {value:08X}" for i, value in enumerate(x.tolist()) if value]
        lines += [f"m{i} {value:08X}" for i, value in enumerate(m.tolist()) if value]
        bits = v.view(np.uint32)
        lines += [f"v{i} " + " ".join(f"{b:08X}" for b in row) for i, row in enumerate(bits.tolist()) if any(row)]
        return "\n".join(lines) + "\n"

    def stats(self) -> Stats:
        """Return the statistics of the run so far."""
        raw = c_abi.atalla_isa_stats(struct_size=ctypes.sizeof(c_abi.atalla_isa_stats))
        self._library.check(self._library.api.machine_stats(self._handle, ctypes.byref(raw)))
        return stats_of(raw)

    def profile(self) -> np.ndarray:
        """uint64: how often each packet has run."""
        counts = np.zeros(len(self.program), np.uint64)
        pointer = counts.ctypes.data_as(ctypes.POINTER(ctypes.c_uint64))
        self._library.check(self._library.api.machine_profile(self._handle, pointer, len(counts)))
        return counts


@dataclass
class Result:
    """A run that halted: its machine (memory, registers) and statistics."""

    machine: Machine
    stats: Stats

    @property
    def cycles(self) -> int:
        """Cycles of the run."""
        return self.stats.cycles

    def memory(self, address: int, shape: int | tuple[int, ...], dtype: Any = np.uint8) -> np.ndarray:
        """DRAM content. dtype `"bfloat16"` gives the values as float32."""
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        narrow = dtype == "bfloat16"
        stored = np.dtype(np.uint16 if narrow else dtype)
        found = self.machine.dram(address, math.prod(shape) * stored.itemsize).view(stored).reshape(shape)
        return (found.astype(np.uint32) << 16).view(np.float32) if narrow else found


def run(
    program: Program | Code,
    memory: Mapping[int, Any] | None = None,
    *,
    entry: str | int | None = None,
    args: Sequence[int] = (),
    profile: str = "simulator",
    timing: bool = True,
    dram_timing: str = "specified",
    dram_bytes: int = DEFAULT_DRAM_BYTES,
    max_packets: int = 0,
    chip: int | str | None = None,
    array: Array | None = None,
    cores: int = 1,
) -> Result:
    """Runs a program to its halt.s in a machine with DRAM of its own.

    memory: address -> array or bytes. args: 32-bit values for x10 and up. profile: `simulator` or `rne`. dram_timing:
    `specified`, `ideal` or `measured` (chip file, [sdma]). max_packets: 0 for no limit, else reaching it is an
    ExecutionError, as a fault is. chip: as for Machine. array: computes lw.vi and
    gemm.vv instead of the engine. cores: of the machine.
    """
    options: dict[str, Any] = {"timing": timing, "dram_timing": dram_timing, "array": array, "cores": cores}
    options["chip"] = chip
    machine = Machine(program, memory, entry=entry, args=args, profile=profile, dram_bytes=dram_bytes, **options)
    if machine.run(max_packets) != "halted":
        raise ExecutionError(f"the program has not ended after {max_packets} packets", "ATALLA_ERR_FAULT_KERNEL")
    return Result(machine, machine.stats())


def _sizes_of(chip: str) -> tuple[int, tuple[int, int]]:
    """Bytes of a scratchpad, and rows and columns of the array."""
    tables = tomllib.loads(chip)
    array = tables["array"]
    return tables["scratchpad"]["bytes"]["value"], (array["rows"]["value"], array["columns"]["value"])


def _device_handle(ordinal: int) -> int:
    _C.properties(ordinal)  # opens it
    return lib.library().device(ordinal)[0]


def launch(
    program: Program | Code,
    *,
    entry: str | int | None = None,
    args: Sequence[int] = (),
    profile: str = "simulator",
    dram_timing: str = "specified",
    device: int | None = None,
    max_packets: int = 0,
    tag: int = 0,
    cores: int = 1,
) -> Stats:
    """Runs a program on a device (default: the current one) after all work submitted so far; charges its cycles.

    Addresses in args count from the DRAM's base (`dram_address`). A fault is an ExecutionError (a RuntimeError) that
    names the launch, packet, instruction and address; the device goes on.
    """
    import torch

    ordinal = _C.current_device() if device is None else device
    torch.accelerator.synchronize(ordinal)
    library = lib.library()
    code = program if isinstance(program, Code) else Code(program, _device_handle(ordinal))
    if code.program.data:
        raise ValueError(
            "a program with .data at fixed addresses cannot run in a device's DRAM; pass data by arguments"
        )
    start = entry if isinstance(entry, int) else code.program.entry(entry)
    params = lib.params(start, tuple(args), profile, True, dram_timing, max_packets, tag, cores)
    raw = c_abi.atalla_isa_stats(struct_size=ctypes.sizeof(c_abi.atalla_isa_stats))
    stream = library.default_stream(_device_handle(ordinal))
    library.check(library.api.launch(stream, code.handle, ctypes.byref(params), ctypes.byref(raw)))
    return stats_of(raw)


def dram_address(tensor: Any) -> int:
    """The address of a tensor's first element as a program on its device sees it; 0 for a tensor of no elements, which
    lies nowhere."""
    if tensor.numel() == 0:
        return 0
    address = tensor.data_ptr() - lib.library().device(tensor.device.index)[1]
    if not 0 <= address < 1 << 32:
        raise ValueError(
            f"expected a tensor in the first 4 GiB of its device's DRAM, which a program's 32-bit addresses reach; got "
            f"one that begins {address} bytes behind the DRAM's base"
        )
    return address
