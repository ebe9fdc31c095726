# SPDX-License-Identifier: BSD-3-Clause
"""Instructions: building, encoding into 40-bit slots, decoding.

    Instruction("addi.s", rd=5, rs1=5, imm12=64)
    Instruction("blt.s", rs1=5, rs2=6, offset="loop", incr7=1)     # a label, resolved by Program
    ops.add_vv(1, 2, 3)                                            # operands in assembly order, mask left out

Registers are plain numbers. Immediates are the values that assembly shows: bytes for offsets, 1 to 32 for `cols`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

from .table import PACKET_BYTES, REGISTER_BASE, Operand, Spec, table


class EncodingError(ValueError):
    """An operand outside its range, or bits that are no instruction."""


class Instruction:
    """An instruction with its operands; `values` are in assembly order, a `str` among them is a label or symbol.

    Instructions compare and hash by value and are not changed after they were built.
    """

    __slots__ = ("spec", "values")

    def __init__(self, mnemonic: str, **operands: int | str):
        spec = table().by_name.get(mnemonic)
        if spec is None:
            raise EncodingError(f"there is no instruction `{mnemonic}`")
        values = []
        for operand in spec.operands:
            if operand.name in operands:
                values.append(operands.pop(operand.name))
            elif operand.optional:
                values.append(0)
            else:
                raise EncodingError(f"{mnemonic}: operand `{operand.name}` is missing")
        if operands:
            spec.index(next(iter(operands)))
        self.spec = spec
        self.values: tuple[int | str, ...] = tuple(values)

    @classmethod
    def of(cls, spec: Spec, values: tuple[int | str, ...]) -> Instruction:
        """The fast way, for code generation: no check before `encode`."""
        self = cls.__new__(cls)
        self.spec = spec
        self.values = values
        return self

    @property
    def mnemonic(self) -> str:
        """Name of the instruction in assembly."""
        return self.spec.name

    def __getattr__(self, name: str) -> int | str:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return self.values[self.spec.index(name)]
        except KeyError as error:
            raise AttributeError(error.args[0]) from None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Instruction) and self.spec is other.spec and self.values == other.values

    def __hash__(self) -> int:
        return hash((self.spec.opcode, self.values))

    def __repr__(self) -> str:
        return f"<{format_instruction(self)}>"

    def reads(self) -> tuple[int, ...]:
        """Registers whose values matter, in the common numbering (table.REGISTER_BASE), without x0 and v0.

        Under a mask other than m0 a merging destination is among them: its inactive lanes stay.
        """
        found = [r for r, access, _ in self._registers() if "r" in access]
        if self.spec.merges and self.values[-1] != 0:
            found += [r for r, access, _ in self._registers() if access == "w"]
        return tuple(r for r in found if r not in (0, 256))

    def writes(self) -> tuple[int, ...]:
        """Registers that it writes, likewise. A branch with increment 0 writes none."""
        found = (r for r, access, _ in self._registers() if "w" in access)
        if self.spec.format == "BR" and self.values[-1] == 0:
            return ()
        return tuple(r for r in found if r not in (0, 256))

    def _registers(self):
        group = self.group
        for operand, value in zip(self.spec.operands, self.values):
            if operand.access:
                yield REGISTER_BASE[operand.kind] + value, operand.access, operand
                if operand.pair & group and value:
                    yield REGISTER_BASE[operand.kind] + value + 1, operand.access, operand

    @property
    def group(self) -> int:
        """Which operands are pairs of registers (isa.yaml); 0 for instructions without such a field."""
        operands = self.spec.operands
        return int(self.values[-1]) if operands and operands[-1].name == "group" else 0

    def encode(self) -> int:
        """The 40 bits of the slot; EncodingError for a value outside its range or a label that is not resolved."""
        return encode(self.spec, self.values)


Slot = Instruction | int | None  # None: nop.s; an int: the raw 40 bits


def format_instruction(slot: Slot, index: int = 0, labels: Mapping[int, str] | None = None) -> str:
    """One slot as assembly; branches name the label of their target where `labels` (packet index -> name) has one."""
    if slot is None:
        return "nop.s"
    if not isinstance(slot, Instruction):
        return f".word40 0x{int(slot):010X}"
    spec = slot.spec
    parts: list[str] = []
    for operand, value in zip(spec.operands, slot.values):
        if operand.register:
            if operand.optional and value == 0:
                continue
            parts.append(f"{operand.kind}{value}")
        elif operand.optional and value == 0:
            continue
        elif operand.kind in ("branch", "jump") and labels and not isinstance(value, str):
            target, rest = divmod(index * PACKET_BYTES + value, PACKET_BYTES)
            parts.append(labels[target] if not rest and target in labels else str(value))
        else:
            parts.append(str(value))
    if spec.format == "M":
        parts = [parts[0], f"{parts[1]}({parts[2]})"]
    return f"{spec.name} {', '.join(parts)}".rstrip()


def _range_error(spec: Spec, operand: Operand, value: Any) -> EncodingError:
    if isinstance(value, str):
        return EncodingError(f"{spec.name}: `{value}` ({operand.name}) is a label that is not resolved")
    step = f" in steps of {operand.step}" if operand.step > 1 else ""
    return EncodingError(
        f"{spec.name}: operand `{operand.name}` is {value}; expected {operand.low} to {operand.high}{step}"
    )


def _encoder(spec: Spec) -> Callable[[tuple], int]:
    opcode = spec.opcode
    simple = all(len(o.parts) == 1 and not o.scale and not o.bias and not o.signed and not o.low for o in spec.operands)
    if simple and all(o.high == (1 << o.parts[0][2]) - 1 for o in spec.operands):
        shifts = [(o.parts[0][1], o.parts[0][2]) for o in spec.operands]

        def encode_plain(values: tuple) -> int:
            word = opcode
            try:
                for value, (shift, width) in zip(values, shifts):
                    if value >> width:
                        raise TypeError
                    word |= value << shift
            except TypeError:
                for operand, value in zip(spec.operands, values):
                    if isinstance(value, str) or not operand.low <= value <= operand.high:
                        raise _range_error(spec, operand, value) from None
                raise
            return word

        return encode_plain

    def encode_any(values: tuple) -> int:
        word = opcode
        for operand, value in zip(spec.operands, values):
            if isinstance(value, str) or not operand.low <= value <= operand.high or value % operand.step:
                raise _range_error(spec, operand, value)
            stored = (value >> operand.scale) - operand.bias
            for source, shift, width in operand.parts:
                word |= ((stored >> source) & ((1 << width) - 1)) << shift
        return word

    return encode_any


_ENCODERS: dict[str, Callable[[tuple], int]] = {}


def encode(spec: Spec, values: tuple) -> int:
    encoder = _ENCODERS.get(spec.name)
    if encoder is None:
        encoder = _ENCODERS[spec.name] = _encoder(spec)
    return encoder(values)


NOP = 49


def decode(word: int) -> Instruction:
    """The instruction of a 40-bit slot; EncodingError for an unknown opcode or bits that its format leaves at 0."""
    spec = table().by_opcode.get(word & 127)
    if spec is None or word >> 40:
        raise EncodingError(f"slot {word:010X}: there is no opcode {word & 127}")
    if word & ~spec.used_bits:
        raise EncodingError(f"slot {word:010X}: {spec.name} leaves bits {word & ~spec.used_bits:#x} at 0")
    values = []
    for operand in spec.operands:
        value = bits = 0
        for source, shift, width in operand.parts:
            value |= ((word >> shift) & ((1 << width) - 1)) << source
            bits += width
        if operand.signed and value >> (bits - 1):
            value -= 1 << bits
        values.append((value + operand.bias) << operand.scale)
    return Instruction.of(spec, tuple(values))


def _factory(spec: Spec) -> Callable[..., Instruction]:
    total = len(spec.operands)
    required = sum(not o.optional for o in spec.operands)
    padding = {n: (0,) * (total - n) for n in range(required, total + 1)}

    def build(*values: int | str) -> Instruction:
        if len(values) != total:
            if len(values) not in padding:
                raise EncodingError(f"{spec.name} takes {required} to {total} operands, got {len(values)}")
            values += padding[len(values)]
        return Instruction.of(spec, values)

    names = ", ".join(f"{o.name}=0" if o.optional else o.name for o in spec.operands)
    build.__doc__ = f"{spec.name}({names}): {spec.text}"
    return build


class _Ops(SimpleNamespace):
    """One function an instruction, named as in assembly with `_` for `.`; operands in assembly order."""

    def __getattr__(self, name: str) -> Callable[..., Instruction]:
        if not self.__dict__:
            for spec in table():
                self.__dict__[spec.name.replace(".", "_")] = _factory(spec)
            if name in self.__dict__:
                return self.__dict__[name]
        raise AttributeError(f"there is no instruction `{name}`")


ops = _Ops()
