# SPDX-License-Identifier: BSD-3-Clause
"""Values in scalar registers: Python operators that record instructions of the scalar core.

A value has a kind: "f" the bits of an FP32, "i" a 32-bit integer that wraps, "l" an integer of a 64-bit tensor, "b" 0
or 1. The core has 32 bits, so an "l" that leaves them is a fault and never a wrong number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from torch_atalla.driver import c_abi

from ..kernels.activation import Constants
from ..kernels.common import fault
from ..vir import X0, Builder, Label, LoopBegin, LoopEnd, Reg, f32_bits

Number = bool | int | float
INFINITY = 0x7F800000
SIGN = 0x80000000


def _operator(name: str, reflected: bool = False) -> Callable[[Value, Value | Number], Value]:
    return lambda x, other: x.core.arithmetic(name, other, x) if reflected else x.core.arithmetic(name, x, other)


def _bit_operator(name: str) -> Callable[[Value, Value], Value]:
    return lambda x, other: x.bitwise(name, x.core.same(x, other)[1])


class Value:
    """Operands of an operator become one kind: the later of b, i, l, f."""

    __slots__ = ("core", "kind", "reg")

    def __init__(self, core: Core, reg: Reg, kind: str) -> None:
        self.core, self.reg, self.kind = core, reg, kind

    # -- arithmetic ----------------------------------------------------------------------------------------------------
    __add__, __radd__ = _operator("add"), _operator("add", reflected=True)
    __sub__, __rsub__ = _operator("sub"), _operator("sub", reflected=True)
    __mul__, __rmul__ = _operator("mul"), _operator("mul", reflected=True)
    __truediv__, __rtruediv__ = _operator("div"), _operator("div", reflected=True)

    def __neg__(self) -> Value:
        if self.kind == "f":
            return self.bitwise("xor.s", self.core.bits(SIGN))
        return self.core.arithmetic("sub", self.core.constant(0, self.kind), self)

    # -- comparisons: 0 or 1 -------------------------------------------------------------------------------------------
    def __lt__(self, other: Value | Number) -> Value:
        a, b = self.core.same(self, other)
        return self.core.new("slt.bf" if a.kind == "f" else "slt.s", "b", a, b)

    def __gt__(self, other: Value | Number) -> Value:
        a, b = self.core.same(self, other)
        return b < a

    def __le__(self, other: Value | Number) -> Value:
        a, b = self.core.same(self, other)
        return ~(b < a) if a.kind != "f" else ~((b < a) | self.core.unordered(a, b))

    def __ge__(self, other: Value | Number) -> Value:
        a, b = self.core.same(self, other)
        return b <= a

    def equals(self, other: Value | Number) -> Value:
        a, b = self.core.same(self, other)
        if a.kind == "f":
            return ~((a < b) | (b < a) | self.core.unordered(a, b))
        different = a.bitwise("xor.s", b)
        return self.core.wrap(self.core.b.s("sltui.s", different.reg, 1), "b")

    # -- truth values and bits -----------------------------------------------------------------------------------------
    def __invert__(self) -> Value:
        if self.kind == "b":
            return self.core.wrap(self.core.b.s("xori.s", self.reg, 1), "b")
        return self.core.wrap(self.core.b.s("xori.s", self.reg, -1), self.kind)

    __and__, __or__, __xor__ = _bit_operator("and.s"), _bit_operator("or.s"), _bit_operator("xor.s")

    def bitwise(self, name: str, other: Value) -> Value:
        return self.core.wrap(self.core.b.s(name, self.reg, other.reg), max(self.kind, other.kind, key="bilf".index))

    def shifted(self, name: str, count: int) -> Value:
        """srl.s, sra.s or sll.s by a constant."""
        return self.core.wrap(self.core.b.s(f"{name[:3]}i.s", self.reg, count), self.kind)

    def as_kind(self, kind: str) -> Value:
        """The same bits as another kind."""
        return self.core.wrap(self.reg, kind)

    def set(self, value: Value | Number) -> None:
        """Of a variable."""
        given = self.core.convert(self.core.value(value, self.kind), self.kind)
        self.core.b.mov(self.reg, given.reg)


class Core:
    """Records one function of the scalar core."""

    def __init__(self, name: str) -> None:
        self.b = Builder(name)
        self.k = Constants(self.b)

    def wrap(self, reg: Reg, kind: str) -> Value:
        return Value(self, reg, kind)

    def new(self, name: str, kind: str, *operands: Value) -> Value:
        return self.wrap(self.b.s(name, *(operand.reg for operand in operands)), kind)

    # -- constants and variables ---------------------------------------------------------------------------------------
    def bits(self, value: int, kind: str = "i") -> Value:
        value &= 0xFFFFFFFF
        return self.wrap(self.k.integer(value) if value else X0, kind)

    def constant(self, value: Number, kind: str) -> Value:
        if kind == "f":
            return self.bits(f32_bits(float(value)), "f")
        if not -(1 << 31) <= int(value) < 1 << 31:
            raise ValueError(f"the integer {value}, which has more than 32 bits")
        return self.bits(int(bool(value)) if kind == "b" else int(value), kind)

    def value(self, value: Value | Number, kind: str = "i") -> Value:
        """kind: of numbers."""
        return value if isinstance(value, Value) else self.constant(value, kind)

    def variable(self, value: Value | Number, kind: str = "") -> Value:
        """A register of its own, which `set` changes."""
        first = self.value(value, kind or "i")
        first = self.convert(first, kind) if kind else first
        return self.wrap(self.b.s("addi.s", first.reg, 0), first.kind)

    def parameter(self, name: str, kind: str = "i") -> Value:
        """A word of the descriptor."""
        return self.wrap(self.k.at_head(("parameter", name), lambda: self.b.parameter(name)), kind)

    # -- kinds ---------------------------------------------------------------------------------------------------------
    def same(self, a: Value | Number, b: Value | Number) -> tuple[Value, Value]:
        """Both as the later kind of the two; a number takes the other's kind, or FP32 if it has a fraction."""
        kinds = [x.kind if isinstance(x, Value) else "f" if isinstance(x, float) else "b" for x in (a, b)]
        kind = max(kinds, key="bilf".index)
        if kind == "b" and not (isinstance(a, Value) and isinstance(b, Value)):
            kind = "i"
        first, second = (self.convert(self.value(x, kind), kind) for x in (a, b))
        return first, second

    def convert(self, x: Value, kind: str) -> Value:
        if x.kind == kind or (x.kind in "bi" and kind in "il"):
            return x.as_kind(kind)
        if kind == "b":
            return self.nonzero(x)
        if x.kind == "f":
            if kind == "l":
                self.fault_unless(self.magnitude(x) < 2147483648.0)
            return self.new("bfts.s", kind, x)
        if kind == "f":
            return self.new("stbf.s", "f", x) if x.kind == "b" else self._exact_float(x)
        return x.as_kind(kind)

    def _exact_float(self, x: Value) -> Value:
        """stbf.s rounds to BF16: pieces of 8 bits are exact, and their sum rounds once where it has more than 24."""
        total = None
        for shift in (24, 16, 8, 0):
            piece = x.as_kind("i").shifted("sra.s", shift) if shift else x.as_kind("i")
            if shift < 24:
                piece = self.wrap(self.b.s("andi.s", piece.reg, 255), "i")
            part = self.new("stbf.s", "f", piece)
            part = part * float(1 << shift) if shift else part
            total = part if total is None else total + part
        assert total is not None
        return total

    def nonzero(self, x: Value) -> Value:
        """Whether it is not 0. A NaN is not."""
        if x.kind == "b":
            return x
        reg = self.b.s("slli.s", x.reg, 1) if x.kind == "f" else x.reg
        return self.wrap(self.b.s("sltu.s", X0, reg), "b")

    # -- arithmetic ----------------------------------------------------------------------------------------------------
    def arithmetic(self, name: str, a: Value | Number, b: Value | Number) -> Value:
        x, y = self.same(a, b)
        if name == "div":
            return self.divide(x, y)
        if x.kind == "f":
            return self._flushed(self.new(f"{name}.bf", "f", x, y))
        kind = "i" if x.kind == "b" else x.kind
        result = self.new(f"{name}.s", kind, x, y)
        if kind == "l":
            self._check_range(name, x, y, result)
        return result

    def _flushed(self, x: Value) -> Value:
        """Subnormal numbers with 16 significant bits at the bottom become 0: add.bf and its like would read them as a
        BF16 in the lower half."""
        high = self.b.s("srli.s", x.reg, 16)
        keep = self.b.s("sub.s", X0, self.b.s("sltu.s", X0, high))
        return self.wrap(self.b.s("and.s", x.reg, keep), "f")

    def _check_range(self, name: str, x: Value, y: Value, result: Value) -> None:
        if name == "mul":
            size = self.magnitude(self.new("stbf.s", "f", x)) * self.magnitude(self.new("stbf.s", "f", y))
            self.fault_unless(size < float(2**31 - 2**24))
            return
        first = x.bitwise("xor.s", result)
        second = (x if name == "sub" else y).bitwise("xor.s", y if name == "sub" else result)
        self.fault_unless(~self.wrap(self.b.s("srli.s", first.bitwise("and.s", second).reg, 31), "b"))

    def divide(self, a: Value, b: Value) -> Value:
        """Integers: truncated."""
        if a.kind != "f":
            return self.new("div.s", a.kind, a, b)
        return a * self.new("rcp.bf", "f", b)

    def modulo(self, a: Value, b: Value) -> Value:
        """Of integers, with the sign of b."""
        return self.new("mod.s", a.kind, a, b)

    # -- tests ---------------------------------------------------------------------------------------------------------
    def magnitude(self, x: Value) -> Value:
        if x.kind == "f":
            return x.bitwise("and.s", self.bits(SIGN - 1))
        return self.select(x < 0, -x, x)

    def is_nan(self, x: Value) -> Value:
        return self.wrap(self.b.s("sltu.s", self.bits(INFINITY).reg, self.magnitude(x).reg), "b")

    def unordered(self, a: Value, b: Value) -> Value:
        return self.is_nan(a) | self.is_nan(b)

    def select(self, condition: Value, yes: Value | Number, no: Value | Number) -> Value:
        """Both are computed."""
        a, b = self.same(yes, no)
        mask = self.b.s("sub.s", X0, self.nonzero(condition).reg)
        changed = self.b.s("and.s", self.b.s("xor.s", a.reg, b.reg), mask)
        return self.wrap(self.b.s("xor.s", b.reg, changed), a.kind)

    def rounded(self, x: Value) -> Value:
        """To the nearest BF16, as bits of an FP32."""
        odd = self.b.s("andi.s", self.b.s("srli.s", x.reg, 16), 1)
        up = self.b.s("add.s", self.b.s("add.s", x.reg, self.k.integer(0x7FFF)), odd)
        return self.select(self.is_nan(x), self.bits(0x7FC00000, "f"), self.wrap(up, "f"))

    # -- control -------------------------------------------------------------------------------------------------------
    @contextmanager
    def range(self, count: Value | int) -> Iterator[Value]:
        """0 <= index < count."""
        with self.b.loop(self.value(count).reg, skip_empty=True) as index:
            yield self.wrap(self.b.s("subi.s", index, 1), "i")

    def fold(self, loop: AbstractContextManager[Any], start: Value | Number, step: Callable, kind: str = "") -> Value:
        """step(...step(step(start, x0), x1)...) of what the passes of a loop give. kind: of the total."""
        total = self.variable(start, kind)
        with loop as found:
            total.set(step(total, *(found if isinstance(found, list) else [found])))
        return total

    @contextmanager
    def when(self, condition: Value) -> Iterator[None]:
        with self.b.unless("beq.s", condition.reg, X0):
            yield

    @contextmanager
    def repeat_while(self, condition: Callable[[], Value]) -> Iterator[None]:
        """condition: computed anew before every pass."""
        again, end = Label("while"), Label("done")
        self.b.items += [LoopBegin(again), again]
        self.b.emit("beq.s", condition().reg, X0, end, 0)
        self.b.items.append(Label())
        yield
        self.b.emit("jal", X0, again)
        self.b.items += [LoopEnd(again), end]

    def fault_unless(
        self,
        condition: Value,
        code: int = c_abi.ATALLA_ISA_FAULT_OVERFLOW,
        value: Value | None = None,
        bound: Value | None = None,
    ) -> None:
        """Stops the program where the condition does not hold. code, value, bound: of kernels.common.fault."""
        with self.b.unless("bne.s", condition.reg, X0):
            fault(self.b, code, value.reg if value else X0, bound.reg if bound else X0)
