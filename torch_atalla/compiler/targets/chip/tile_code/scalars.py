# SPDX-License-Identifier: BSD-3-Clause
"""Operations of tile programs on scalars: on constants at once, else by instructions of the scalar core."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ....tile.ir import Op
from ..scalar_core import functions
from ..scalar_core.formula_functions import FLOATING
from ..scalar_core.values import Core, Value
from .values import Scalar, Wide

Integer = int | Value


def signed(number: int) -> int:
    """The number that its lower 32 bits are."""
    return (number & 0xFFFFFFFF) - ((number & 0x80000000) << 1)


def _integer(core: Core, x: Any) -> Value:
    return core.value(x, "i").as_kind("i") if not isinstance(x, Value) else core.convert(x, "i")


def add(core: Core, a: Any, b: Any) -> Any:
    if isinstance(a, int) and isinstance(b, int):
        return signed(a + b)
    if a == 0 and isinstance(a, int):
        return b
    if isinstance(b, int):
        if b == 0:
            return a
        if -2048 <= b < 2048:
            return core.wrap(core.b.s("addi.s", _integer(core, a).reg, b), "i")
    return core.arithmetic("add", _integer(core, a), _integer(core, b))


def subtract(core: Core, a: Any, b: Any) -> Any:
    if isinstance(b, int):
        return add(core, a, signed(-b))
    return core.arithmetic("sub", _integer(core, a), _integer(core, b))


def multiply(core: Core, a: Any, b: Any) -> Any:
    if isinstance(a, int) and isinstance(b, int):
        return signed(a * b)
    if isinstance(a, int):
        a, b = b, a
    if isinstance(b, int):
        if b in (0, 1):
            return a if b else 0
        if b > 0 and b & (b - 1) == 0:
            return _integer(core, a).shifted("sll.s", b.bit_length() - 1)
    return core.arithmetic("mul", _integer(core, a), _integer(core, b))


def divide(core: Core, a: Any, b: Any) -> Any:
    """Truncated."""
    if isinstance(a, int) and isinstance(b, int) and b:
        return signed(abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1))
    if isinstance(b, int) and b > 0 and b & (b - 1) == 0:
        if b == 1:
            return a
        x, bits = _integer(core, a), b.bit_length() - 1
        up = core.wrap(core.b.s("srli.s", core.b.s("srai.s", x.reg, 31), 32 - bits), "i")
        return (x + up).shifted("sra.s", bits)
    return core.divide(_integer(core, a), _integer(core, b))


def remainder(core: Core, a: Any, b: Any) -> Any:
    """With the sign of a."""
    return subtract(core, a, multiply(core, divide(core, a, b), b))


def modulo(core: Core, a: Any, b: Any) -> Any:
    """With the sign of b."""
    if isinstance(a, int) and isinstance(b, int):
        return a % b
    return core.modulo(_integer(core, a), _integer(core, b))


def less(core: Core, a: Any, b: Any) -> Any:
    """0 or 1, of signed numbers."""
    if isinstance(a, int) and isinstance(b, int):
        return int(a < b)
    return _integer(core, a) < _integer(core, b)


def least(core: Core, a: Any, b: Any) -> Any:
    if isinstance(a, int) and isinstance(b, int):
        return min(a, b)
    return select(core, less(core, a, b), a, b)


def most(core: Core, a: Any, b: Any) -> Any:
    if isinstance(a, int) and isinstance(b, int):
        return max(a, b)
    return select(core, less(core, a, b), b, a)


def select(core: Core, condition: Any, a: Any, b: Any) -> Any:
    if isinstance(condition, int):
        return a if condition else b
    kind = "f" if isinstance(a, float) or isinstance(b, float) else "i"
    return core.select(condition, core.value(a, kind), core.value(b, kind))


def clamp(core: Core, x: Any, high: int) -> Any:
    """Between 0 and `high`."""
    return least(core, most(core, x, 0), high)


def high_product(core: Core, a: Any, b: Any) -> Any:
    """The upper 32 bits of the product of two unsigned numbers, from products of 16 bits."""
    if isinstance(a, int) and isinstance(b, int):
        return signed((a & 0xFFFFFFFF) * (b & 0xFFFFFFFF) >> 32)
    half = core.bits(0xFFFF)
    x, y = _integer(core, a), _integer(core, b)
    (xl, xh), (yl, yh) = ((v.bitwise("and.s", half), v.shifted("srl.s", 16)) for v in (x, y))
    first = xh * yl + (xl * yl).shifted("srl.s", 16)
    second = xl * yh + first.bitwise("and.s", half)
    return xh * yh + first.shifted("srl.s", 16) + second.shifted("srl.s", 16)


# ------------------------------------------------------------------------------------------------------- operations
def _bitwise(name: str, fold: Callable[[int, int], int]) -> Callable[..., Any]:
    def apply(core: Core, op: Op, a: Any, b: Any) -> Any:
        if isinstance(a, int) and isinstance(b, int):
            return signed(fold(a, b))
        if isinstance(a, Value) and isinstance(b, Value):
            return a.bitwise(name, b)
        kind = "b" if op.results[0].type.element == "i1" else "i"
        return core.value(a, kind).bitwise(name, core.value(b, kind)).as_kind(kind)

    return apply


def _shift(name: str) -> Callable[..., Any]:
    def apply(core: Core, op: Op, a: Any, b: Any) -> Any:
        if isinstance(b, int):
            if isinstance(a, int):
                unsigned = a & 0xFFFFFFFF
                return signed({"sll.s": a << b, "srl.s": unsigned >> b, "sra.s": a >> b}[name])
            return _integer(core, a).shifted(name, b)
        return core.new(name, "i", _integer(core, a), _integer(core, b))

    return apply


_SIGNED = {"slt": (0, 0), "sgt": (1, 0), "sge": (0, 1), "sle": (1, 1)}  # operands exchanged, result inverted
_UNSIGNED = {"ult": (0, 0), "ugt": (1, 0), "uge": (0, 1), "ule": (1, 1)}


def _invert(x: Any) -> Any:
    return int(not x) if isinstance(x, int) else ~x


def _compare_integers(core: Core, op: Op, a: Any, b: Any) -> Any:
    predicate = op.attributes["words"][0]
    if predicate in ("eq", "ne"):
        same = int(a == b) if isinstance(a, int) and isinstance(b, int) else _integer(core, a).equals(_integer(core, b))
        return same if predicate == "eq" else _invert(same)
    swap, inverted = (_SIGNED | _UNSIGNED)[predicate]
    a, b = (b, a) if swap else (a, b)
    if predicate in _SIGNED:
        found = less(core, a, b)
    elif isinstance(a, int) and isinstance(b, int):
        found = int(a & 0xFFFFFFFF < b & 0xFFFFFFFF)
    else:
        found = core.new("sltu.s", "b", _integer(core, a), _integer(core, b))
    return _invert(found) if inverted else found


def _compare_floats(core: Core, op: Op, a: Any, b: Any) -> Any:
    x, y = core.value(a, "f"), core.value(b, "f")
    predicate = op.attributes["words"][0]
    found: dict[str, Callable[[], Value]] = {
        "olt": lambda: x < y, "ogt": lambda: x > y, "ole": lambda: x <= y, "oge": lambda: x >= y,
        "oeq": lambda: x.equals(y), "one": lambda: (x < y) | (y < x), "uno": lambda: core.unordered(x, y),
        "ord": lambda: ~core.unordered(x, y), "ult": lambda: ~(x >= y), "ugt": lambda: ~(x <= y),
        "ule": lambda: ~(x > y), "uge": lambda: ~(x < y), "une": lambda: ~x.equals(y),
        "ueq": lambda: ~((x < y) | (y < x)),
    }  # fmt: skip
    if predicate not in found:
        raise op.fail(f"the comparison `{predicate}`")
    return found[predicate]()


def _float(name: str) -> Callable[..., Any]:
    return lambda core, op, a, b: core.arithmetic(name, core.value(a, "f"), core.value(b, "f"))


def _function(function: Callable[..., Value]) -> Callable[..., Any]:
    return lambda core, op, *given: function(core, *(core.value(x, "f") for x in given))


def _same(core: Core, op: Op, x: Any) -> Any:
    return x


def _extend_bits(core: Core, op: Op, x: Any) -> Any:
    """extui: a truth value is 0 or 1 as it is."""
    element = op.operands[0].type.element
    if element in ("i1", "i32"):
        return x
    bits = {"i8": 0xFF, "i16": 0xFFFF}[element]
    return x & bits if isinstance(x, int) else core.convert(x, "i").bitwise("and.s", core.bits(bits))


def _truncate(core: Core, op: Op, x: Any) -> Any:
    element = op.results[0].type.element
    if element == "i1":
        return x & 1 if isinstance(x, int) else core.wrap(core.b.s("andi.s", x.reg, 1), "b")
    unused = 32 - {"i8": 8, "i16": 16, "i32": 32}[element]
    if isinstance(x, int):
        return signed(x << unused) >> unused
    return x.shifted("sll.s", unused).shifted("sra.s", unused) if unused else x


def _to_float(core: Core, op: Op, x: Any) -> Any:
    if isinstance(x, int) and not isinstance(x, bool):
        return float(x)
    if op.name == "arith.uitofp" and op.operands[0].type.element == "i32":
        raise op.fail("an unsigned integer of 32 bits as a number: the scalar core converts signed ones")
    return core.convert(x, "f")


def _round(core: Core, op: Op, x: Any) -> Any:
    if op.results[0].type.element not in ("bf16", "f32"):
        raise op.fail(f"a number of {op.results[0].type.element}; expected bf16 or f32")
    return core.rounded(core.value(x, "f")) if op.results[0].type.element == "bf16" else x


def _bitcast(core: Core, op: Op, x: Any) -> Any:
    source, result = op.operands[0].type.element, op.results[0].type.element
    if source == result or "f" not in source + result:
        return x
    if "bf16" in (source, result):
        raise op.fail("the bits of a bf16 number")
    return core.value(x, "f" if source == "f32" else "i").as_kind("f" if result == "f32" else "i")


OPERATIONS: dict[str, Callable[..., Any]] = {
    "arith.addi": lambda core, op, a, b: add(core, a, b),
    "arith.subi": lambda core, op, a, b: subtract(core, a, b),
    "arith.muli": lambda core, op, a, b: multiply(core, a, b),
    "arith.divsi": lambda core, op, a, b: divide(core, a, b),
    "arith.remsi": lambda core, op, a, b: remainder(core, a, b),
    "arith.minsi": lambda core, op, a, b: least(core, a, b),
    "arith.maxsi": lambda core, op, a, b: most(core, a, b),
    "arith.andi": _bitwise("and.s", lambda a, b: a & b),
    "arith.ori": _bitwise("or.s", lambda a, b: a | b),
    "arith.xori": _bitwise("xor.s", lambda a, b: a ^ b),
    "arith.shli": _shift("sll.s"),
    "arith.shrui": _shift("srl.s"),
    "arith.shrsi": _shift("sra.s"),
    "arith.cmpi": _compare_integers,
    "arith.cmpf": _compare_floats,
    "arith.select": lambda core, op, c, a, b: select(core, c, a, b),
    "arith.extsi": lambda core, op, x: -x if op.operands[0].type.element == "i1" and isinstance(x, int) else x,
    "arith.extui": _extend_bits,
    "arith.trunci": _truncate,
    "arith.index_cast": _same,
    "arith.sitofp": _to_float,
    "arith.uitofp": _to_float,
    "arith.fptosi": lambda core, op, x: core.new("bfts.s", "i", core.value(x, "f")),
    "arith.extf": _same,
    "arith.truncf": _round,
    "arith.addf": _float("add"),
    "arith.subf": _float("sub"),
    "arith.mulf": _float("mul"),
    "arith.divf": lambda core, op, a, b: core.divide(core.value(a, "f"), core.value(b, "f")),
    "arith.negf": lambda core, op, x: -core.value(x, "f"),
    "arith.maxnumf": _function(FLOATING["fmax"]),
    "arith.minnumf": _function(FLOATING["fmin"]),
    "arith.maximumf": _function(FLOATING["maximum"]),
    "arith.minimumf": _function(FLOATING["minimum"]),
    "math.absf": _function(FLOATING["abs"]),
    "math.absi": lambda core, op, x: abs(x) if isinstance(x, int) else core.magnitude(x),
    **{
        f"math.{name}": _function(FLOATING[name])
        for name in ("exp", "exp2", "log", "log2", "sqrt", "sin", "cos", "floor", "ceil", "erf")
    },
    "math.rsqrt": _function(functions.inverse_root),
    "math.fma": lambda core, op, a, b, c: core.value(a, "f") * core.value(b, "f") + core.value(c, "f"),
    "tt.precise_sqrt": _function(functions.square_root),
    "tt.precise_divf": lambda core, op, a, b: core.divide(core.value(a, "f"), core.value(b, "f")),
    "tt.mulhiui": lambda core, op, a, b: high_product(core, a, b),
    "tt.bitcast": _bitcast,
    "arith.bitcast": _bitcast,
}


def compute(core: Core, op: Op, arguments: Sequence[Scalar | Wide]) -> Any:
    """The result of an op. Raises TileError for one that the scalar core does not have."""
    if any(isinstance(x, Wide) for x in arguments) or op.results[0].type.element == "i64":
        return wide(core, op, arguments)
    if any(v.type.element in ("f16", "f64") for v in (*op.operands, *op.results)):
        raise op.fail("numbers of float16 and float64; Atalla code computes with bfloat16 and float32")
    found = OPERATIONS.get(op.name)
    if found is None:
        raise op.fail("the scalar core has no such operation")
    return found(core, op, *arguments)


# ----------------------------------------------------------------------------------------------------------- 64 bits
def widened(core: Core, x: Any, is_signed: bool = True) -> Wide:
    if isinstance(x, Wide):
        return x
    if isinstance(x, int):
        return Wide(signed(x), signed(x >> 32))
    low = core.convert(x, "i")
    return Wide(low, low.shifted("sra.s", 31) if is_signed else 0)


def wide(core: Core, op: Op, arguments: Sequence[Any]) -> Any:
    """Of integers of 64 bits."""
    name, last = op.name, arguments[-1]
    if name in ("arith.extsi", "arith.extui", "arith.index_cast"):
        return widened(core, arguments[0], name != "arith.extui")
    if name == "arith.trunci":
        return _truncate(core, op, arguments[0].low)
    a, b = widened(core, arguments[0]), widened(core, last)
    if name in ("arith.andi", "arith.ori", "arith.xori"):
        apply = OPERATIONS[name]
        return Wide(apply(core, op, a.low, b.low), apply(core, op, a.high, b.high))
    if name in ("arith.shrui", "arith.shrsi", "arith.shli") and isinstance(b.low, int) and b.low >= 32:
        count = b.low - 32
        if name == "arith.shli":
            return Wide(0, OPERATIONS[name](core, op, a.low, count))
        filled = 0 if name == "arith.shrui" else OPERATIONS["arith.shrsi"](core, op, a.high, 31)
        return Wide(OPERATIONS[name](core, op, a.high, count), filled)
    if name == "arith.addi":
        low = add(core, a.low, b.low)
        carry = core.new("sltu.s", "i", _integer(core, low), _integer(core, b.low))
        return Wide(low, add(core, add(core, a.high, b.high), carry))
    if name == "arith.muli":
        low = multiply(core, a.low, b.low)
        high = high_product(core, a.low, b.low)
        cross = add(core, multiply(core, a.low, b.high), multiply(core, a.high, b.low))
        return Wide(low, add(core, high, cross))
    if name == "arith.cmpi" and op.attributes["words"][0] in ("eq", "ne"):
        same = _integer(core, a.low).equals(_integer(core, b.low)) & _integer(core, a.high).equals(
            _integer(core, b.high)
        )
        return same if op.attributes["words"][0] == "eq" else ~same
    raise op.fail("an operation on integers of 64 bits that the scalar core, which has 32, does not have")
