# SPDX-License-Identifier: BSD-3-Clause
"""Programs: packets, labels and data, and their binary form.

    program = Program()
    program.label("loop")
    program.append(ops.blt_s(5, 6, "loop", 1), ops.vreg_ld(1, 7, 0, 0, 32))      # one packet, slot 0 first
    code = program.encode()                                                     # numpy uint8, 20 bytes a packet

A packet is a tuple of one to four entries: an Instruction, None (nop.s), or an int (the raw 40 bits of a slot).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from .instruction import NOP, EncodingError, Instruction, Slot, decode, encode
from .table import PACKET_BYTES, SLOT_BYTES, SLOTS


class Packet(tuple[Slot, ...]):
    """One to four slots that issue together. `Packet([a, b])` or `Packet([None, a])`; missing slots are nop.s."""

    __slots__ = ()

    def __new__(cls, slots: Iterable[Slot]) -> Packet:
        self = super().__new__(cls, slots)
        if not 1 <= len(self) <= SLOTS:
            raise EncodingError(f"a packet has 1 to {SLOTS} slots, got {len(self)}")
        return self


@dataclass
class Program:
    """Packets in order of address, labels (name -> packet index), symbols (name -> value), data (address -> bytes).

    Data addresses are DRAM addresses as the chip sees them; instructions have an address space of their own.
    """

    packets: list[Sequence[Slot]] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    symbols: dict[str, int] = field(default_factory=dict)
    data: dict[int, bytes] = field(default_factory=dict)

    def append(self, *slots: Slot) -> int:
        """Adds one packet; returns its index."""
        self.packets.append(slots)
        return len(self.packets) - 1

    def label(self, name: str) -> None:
        """Names the next packet. ValueError if the name is taken."""
        if name in self.labels or name in self.symbols:
            raise ValueError(f"the label `{name}` is defined twice")
        self.labels[name] = len(self.packets)

    def extend(self, other: Program, prefix: str = "") -> int:
        """Appends another program's packets and data, its labels with `prefix` before them; returns the first index.

        Branches by label inside the other one are renamed too; symbols must agree.
        """
        start = len(self.packets)
        for name, value in other.symbols.items():
            if self.symbols.setdefault(name, value) != value:
                raise ValueError(f"the symbol `{name}` has two values")
        for name, index in other.labels.items():
            if prefix + name in self.labels:
                raise ValueError(f"the label `{prefix + name}` is defined twice")
            self.labels[prefix + name] = start + index

        def renamed(slot: Slot) -> Slot:
            if isinstance(slot, Instruction) and prefix and any(isinstance(v, str) for v in slot.values):
                values = (prefix + v if isinstance(v, str) and v in other.labels else v for v in slot.values)
                return Instruction.of(slot.spec, tuple(values))
            return slot

        self.packets += [tuple(map(renamed, packet)) for packet in other.packets] if prefix else other.packets
        self.data |= other.data
        return start

    def __len__(self) -> int:
        return len(self.packets)

    def __iter__(self) -> Iterator[Sequence[Slot]]:
        return iter(self.packets)

    def entry(self, label: str | None = None) -> int:
        """Byte address of a label; 0 for None."""
        if label is None:
            return 0
        if label not in self.labels:
            raise KeyError(f"there is no label `{label}`")
        return self.labels[label] * PACKET_BYTES

    def _resolve(self, index: int, instruction: Instruction) -> tuple[int, ...]:
        values = []
        for operand, value in zip(instruction.spec.operands, instruction.values):
            if isinstance(value, str):
                if value in self.labels:
                    target = self.labels[value] * PACKET_BYTES
                    value = target - index * PACKET_BYTES if operand.kind in ("branch", "jump") else target
                elif value in self.symbols:
                    value = self.symbols[value]
                else:
                    raise EncodingError(f"`{value}` is neither a label nor a symbol")
            values.append(value)
        return tuple(values)

    def slots(self) -> np.ndarray:
        """The encoded slots, uint64 of shape (packets, 4). EncodingError names the packet and the slot."""
        words = np.full((len(self.packets), SLOTS), NOP, np.uint64)
        flat: list[int] = []
        where: list[int] = []
        for index, packet in enumerate(self.packets):
            for slot, entry in enumerate(packet):
                if entry is None:
                    continue
                if isinstance(entry, int):
                    flat.append(entry)
                else:
                    try:
                        values = entry.values
                        if str in map(type, values):
                            values = self._resolve(index, entry)
                        flat.append(encode(entry.spec, values))
                    except EncodingError as error:
                        raise EncodingError(f"packet {index}, slot {slot}: {error}") from None
                where.append(index * SLOTS + slot)
        words.reshape(-1)[where] = np.array(flat, np.uint64)
        return words

    def encode(self) -> np.ndarray:
        """The code: uint8 of 20 bytes a packet, slot 0 first, each slot little-endian."""
        return pack(self.slots())

    @classmethod
    def decode(cls, code: bytes | bytearray | memoryview | np.ndarray) -> Program:
        """The program of some code. Slots that are no instruction stay as numbers."""
        cache: dict[int, Slot] = {}
        program = cls()
        for row in unpack(code).tolist():
            packet: list[Slot] = []
            for word in row:
                if word not in cache:
                    try:
                        cache[word] = decode(word)
                    except EncodingError:
                        cache[word] = word
                packet.append(cache[word])
            program.packets.append(packet)
        return program


def pack(slots: np.ndarray) -> np.ndarray:
    """(packets, 4) uint64 to code bytes."""
    if len(slots) and int(slots.max()) >> (8 * SLOT_BYTES):
        raise EncodingError("a slot has more than 40 bits")
    view = np.ascontiguousarray(slots, "<u8").view(np.uint8).reshape(-1, 8)[:, :SLOT_BYTES]
    return np.ascontiguousarray(view).reshape(-1)


def unpack(code: bytes | bytearray | memoryview | np.ndarray) -> np.ndarray:
    """Code bytes to (packets, 4) uint64; EncodingError if they are not whole packets."""
    array = np.frombuffer(bytes(code), np.uint8)
    if len(array) % PACKET_BYTES:
        raise EncodingError(f"the code has {len(array)} bytes; expected a multiple of {PACKET_BYTES}")
    wide = np.zeros((len(array) // SLOT_BYTES, 8), np.uint8)
    wide[:, :SLOT_BYTES] = array.reshape(-1, SLOT_BYTES)
    return wide.view("<u8").reshape(-1, SLOTS).astype(np.uint64)
