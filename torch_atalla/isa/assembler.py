# SPDX-License-Identifier: BSD-3-Clause
"""The assembler.

    .equ ROWS, 32               # a constant; expressions with + - * / % << >> & | ^ ~ ( )
    loop:                       # a label names the next packet (or, in .data, the next address)
    { blt.s x5, x6, loop, 1     # slots of a packet, separated by lines or ;
      vreg.ld v1, x7, x0, 0, ROWS
      nop.s }                   # missing slots are nop.s
    add.vv v1, v2, v3, m1       # without braces: a packet of one instruction; the mask is m0 when left out
    lw.s x8, 4(x10)
    .word40 0x0000000031        # a slot by its bits
    .data
    .org 0x1000                 # DRAM address of what follows; .align N is a multiple
    table: .word 1, -2, loop    # also .half, .bf16, .float, .space BYTES
    .text

Comments begin with # or //. docs/guides/isa.md has the whole syntax.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from .checker import check_packet
from .errors import AssemblyError
from .expressions import Line, Token, expression, shown
from .instruction import Instruction
from .program import Packet, Program, Slot
from .table import PACKET_BYTES, SLOTS, Operand, table

_MAX_SPACE = 1 << 28
_DATA = {".word": 4, ".float": 4, ".half": 2, ".bf16": 2}
_REGISTER_COUNT = {"x": 256, "v": 256, "m": 16}


@dataclass
class _Pending:
    """A slot or data value whose expression may name labels that stand further down."""

    line: Line
    position: int
    packet: int
    slot: int
    mnemonic: Token


def assemble(text: str, where: str = "", check: bool = True) -> Program:
    """The program of some assembly text.

    AssemblyError, with line and column, for the first mistake; `where` (a file's name) is put before it. With `check`,
    a packet that the hardware cannot issue is a mistake too (torch_atalla.isa.checker).
    """
    return _Assembler(text, where).run(check)


class _Assembler:
    def __init__(self, text: str, where: str):
        self.lines = [Line(line, i + 1, where) for i, line in enumerate(text.splitlines())]
        self.program = Program()
        self.packet: list[_Pending] | None = None  # inside braces
        self.opened: tuple[Line, int] | None = None
        self.slots: list[list[_Pending]] = []
        self.data: list[tuple[Line, int, str, int]] = []  # line, position (.space: bytes), directive, address
        self.origin: int | None = None  # in .data: the next address
        self.addresses: dict[str, int] = {}  # labels in .data

    def run(self, check: bool) -> Program:
        for line in self.lines:
            while not line.at_end():
                self.statement(line)
        if self.packet is not None and self.opened is not None:
            line, column = self.opened
            raise line.error("this packet is not closed", column)
        names = self.names()
        for index, pending in enumerate(self.slots):
            self.program.packets.append(Packet([self.encode(p, index, names) for p in pending] or [None]))
        for line, position, kind, address in self.data:
            self.write(line, position, kind, address, names)
        if check:
            self.check()
        return self.program

    def names(self) -> dict[str, int]:
        text = {name: index * PACKET_BYTES for name, index in self.program.labels.items()}
        return text | self.addresses | self.program.symbols

    # --- statements

    def statement(self, line: Line) -> None:
        token = line.peek()
        if token.text == "{" and self.packet is None and self.origin is None:
            self.opened = (line, token.column)
            self.packet = []
            line.next()
        elif token.text == "}" and self.packet is not None:
            line.next()
            self.slots.append(self.packet)
            self.packet = None
        elif token.text == ";":
            line.next()
        elif token.kind != "name":
            raise line.error(f"expected an instruction, a label or a directive, found {shown(token)}")
        elif line.peek(1).text == ":":
            self.label(line)
        elif token.text == ".word40" or not token.text.startswith("."):
            self.instruction(line)
        else:
            self.directive(line)

    def define(self, line: Line, token: Token, values: dict[str, int], value: int) -> None:
        name = token.text
        if name in self.program.labels or name in self.program.symbols or name in self.addresses:
            raise line.error(f"`{name}` is defined twice", token.column)
        if name in table().by_name or _register(name) or name[0] in ".%":
            raise line.error(f"`{name}` cannot be a name", token.column)
        values[name] = value

    def label(self, line: Line) -> None:
        token = line.next()
        line.next()
        if self.packet is not None:
            raise line.error("a label cannot stand inside a packet", token.column)
        if self.origin is None:
            self.define(line, token, self.program.labels, len(self.slots))
        else:
            self.define(line, token, self.addresses, self.origin)

    def instruction(self, line: Line) -> None:
        if self.origin is not None:
            raise line.error("an instruction in .data; expected .text before it")
        token = line.next()
        if token.text != ".word40" and token.text not in table().by_name:
            raise line.error(f"there is no instruction `{token.text}`", token.column)
        pending = _Pending(line, line.position, len(self.slots), len(self.packet or []), token)
        if self.packet is None:
            self.slots.append([pending])
        elif len(self.packet) == SLOTS:
            raise line.error(f"a packet has {SLOTS} slots; this would be one more", token.column)
        else:
            self.packet.append(pending)
        self.skip(line)

    def skip(self, line: Line) -> None:
        while not line.at_end() and line.peek().text not in (";", "}", "{"):
            line.next()

    def directive(self, line: Line) -> None:
        token = line.next()
        name = token.text
        if self.packet is not None:
            raise line.error(f"{name} cannot stand inside a packet", token.column)
        if name == ".data":
            self.origin = self.origin or 0
        elif name == ".text":
            self.origin = None
        elif name == ".equ":
            target = line.next()
            if target.kind != "name":
                raise line.error(f"expected a name, found {shown(target)}", target.column)
            if not line.accept("="):
                line.expect(",")
            self.define(line, target, self.program.symbols, self.integer(line, self.names()))
        elif self.origin is None:
            known = name in _DATA or name in (".org", ".align", ".space")
            raise line.error(f"{name} needs .data before it" if known else f"there is no {name}", token.column)
        elif name == ".org":
            self.origin = self.address(line, self.integer(line, self.names()), token)
        elif name == ".align":
            step = self.integer(line, self.names())
            if step < 1 or step & (step - 1):
                raise line.error(f"alignment {step}; expected a power of two", token.column)
            self.origin = self.address(line, -(-self.origin // step) * step, token)
        elif name == ".space":
            size = self.integer(line, self.names())
            if not 0 <= size <= _MAX_SPACE:
                raise line.error(f".space of {size} bytes; expected 0 to {_MAX_SPACE}", token.column)
            if size:
                self.data.append((line, size, name, self.origin))
            self.origin = self.address(line, self.origin + size, token)
        elif name in _DATA:
            while True:
                if line.at_end() or line.peek().text in (",", ";"):
                    raise line.error(f"expected a value, found {shown(line.peek())}")
                self.data.append((line, line.position, name, self.origin))
                self.origin = self.address(line, self.origin + _DATA[name], token)
                while not line.at_end() and line.peek().text not in (",", ";"):
                    line.next()
                if not line.accept(","):
                    break
        else:
            raise line.error(f"there is no {name}", token.column)
        if not line.at_end() and line.peek().text != ";":
            raise line.error(f"expected the end of the line, found {shown(line.peek())}")

    def address(self, line: Line, value: int, token: Token) -> int:
        if not 0 <= value <= 1 << 32:
            raise line.error(f"address {value:#x} leaves the 32-bit address space", token.column)
        return value

    # --- values

    def integer(self, line: Line, names) -> int:
        column = line.peek().column
        value = expression(line, names)
        if isinstance(value, float):
            raise line.error("expected an integer", column)
        return value

    def write(self, line: Line, position: int, kind: str, address: int, names: dict[str, int]) -> None:
        if kind == ".space":
            return self.store(line, address, bytes(position), line.tokens[0])
        line.position = position
        token = line.peek()
        value = expression(line, names)
        if not line.at_end() and line.peek().text not in (",", ";"):
            raise line.error(f"expected `,`, found {shown(line.peek())}")
        if kind in (".float", ".bf16"):
            try:
                bits = struct.unpack("<I", struct.pack("<f", value))[0]
            except OverflowError:
                raise line.error(f"{value} leaves the range of {kind[1:]}", token.column) from None
            raw = struct.pack("<I", bits) if kind == ".float" else struct.pack("<H", _round_bf16(bits))
        else:
            size = _DATA[kind]
            if isinstance(value, float) or not -(1 << (8 * size - 1)) <= value < 1 << (8 * size):
                raise line.error(f"{value} does not fit into {size} bytes", token.column)
            raw = (value & ((1 << (8 * size)) - 1)).to_bytes(size, "little")
        self.store(line, address, raw, token)

    def store(self, line: Line, address: int, raw: bytes, token: Token) -> None:
        data = self.program.data
        last = next(reversed(data), None) if data else None
        if last is not None and last + len(data[last]) == address:
            data[last] += raw
            return
        if address in data:
            raise line.error(f"data at {address:#x} is given twice", token.column)
        data[address] = raw

    # --- instructions

    def encode(self, pending: _Pending, index: int, names: dict[str, int]) -> Slot:
        line, line.position = pending.line, pending.position
        if pending.mnemonic.text == ".word40":
            word = self.integer(line, names)
            self.finish(line)
            if not 0 <= word < 1 << 40:
                raise line.error(f"{word:#x} has more than 40 bits", pending.mnemonic.column)
            return word
        spec = table().by_name[pending.mnemonic.text]
        if spec.format == "M":
            values = self.memory_operands(line, spec.operands, index, names)
        else:
            values = []
            for operand in spec.operands:
                if operand.optional and not line.accept(","):
                    values.append(0)
                    continue
                if values and not operand.optional:
                    line.expect(",")
                values.append(self.operand(line, operand, index, names))
        self.finish(line)
        return Instruction.of(spec, tuple(values))

    def memory_operands(self, line: Line, operands: Sequence[Operand], index: int, names: dict[str, int]) -> list[int]:
        """register, imm(base); the immediate may be left out."""
        data, offset, base = operands
        values = [self.operand(line, data, index, names)]
        line.expect(",")
        values.append(0 if self.base_follows(line) else self.operand(line, offset, index, names))
        line.expect("(")
        values.append(self.operand(line, base, index, names))
        line.expect(")")
        return values

    def base_follows(self, line: Line) -> bool:
        return line.peek().text == "(" and _register(line.peek(1).text) is not None and line.peek(2).text == ")"

    def finish(self, line: Line) -> None:
        if not line.at_end() and line.peek().text not in (";", "}", "{"):
            raise line.error(f"expected the end of the instruction, found {shown(line.peek())}")

    def operand(self, line: Line, operand: Operand, index: int, names: dict[str, int]) -> int:
        token = line.peek()
        if operand.register:
            found = _register(token.text) if token.kind == "name" else None
            if found is None or found[0] != operand.kind:
                most = _REGISTER_COUNT[operand.kind] - 1
                raise line.error(f"expected a register {operand.kind}0 to {operand.kind}{most}, found {shown(token)}")
            line.next()
            return found[1]
        is_label = token.kind == "name" and token.text in self.program.labels
        value = self.integer(line, names)
        if operand.kind in ("branch", "jump") and is_label:
            value -= index * PACKET_BYTES
        if not operand.low <= value <= operand.high or value % operand.step:
            step = f" in steps of {operand.step}" if operand.step > 1 else ""
            raise line.error(
                f"`{operand.name}` is {value}; expected {operand.low} to {operand.high}{step}", token.column
            )
        return value

    def check(self) -> None:
        for index, packet in enumerate(self.program.packets):
            for problem in check_packet(packet, index):
                if isinstance(packet[problem.slot], int):
                    continue  # .word40: whoever writes bits means them
                pending = self.slots[index][problem.slot]
                raise pending.line.error(problem.text, pending.mnemonic.column)


_REGISTERS = {f"{kind}{n}": (kind, n) for kind, count in _REGISTER_COUNT.items() for n in range(count)}


def _register(text: str) -> tuple[str, int] | None:
    return _REGISTERS.get(text)


def _round_bf16(bits: int) -> int:
    """FP32 bits to BF16 bits, to nearest even; a NaN stays one."""
    if bits & 0x7FFFFFFF > 0x7F800000:
        return (bits >> 16) | 0x40
    return (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16


__all__ = ["AssemblyError", "assemble"]
