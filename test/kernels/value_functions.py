# SPDX-License-Identifier: BSD-3-Clause
"""The functions that the values of csrc/sim/kernels.yaml call: all of this module but those with an underscore.

Numbers are Python's integers, doubles and complex doubles.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
import torch
from kernel_operands import Elements, Undefined, Vector


def places(of: Any) -> Iterable[Any]:
    """The places of a loop: below a size, or below all sizes of a vector, or those of a collection."""
    if isinstance(of, Vector):
        return map(Vector, product(*map(range, of)))
    return range(of) if isinstance(of, int) else of


def undefined() -> None:
    """The contract leaves the element open."""
    raise Undefined


def line(index: Vector, sizes: Vector, mask: int) -> Iterator[Vector]:
    """The indices that equal `index` but in the dimensions of the mask."""
    choices = (range(n) if mask >> d & 1 else (i,) for d, (i, n) in enumerate(zip(index, sizes)))
    return map(Vector, product(*choices))


def _given(values: Iterable[Any]) -> list[Any]:
    return [value for value in values if value is not None]


def prod(values: Iterable[Any]) -> Any:
    return math.prod(_given(values))


def mean(values: Iterable[Any]) -> Any:
    found = _given(values)
    return np.float64(math.nan) if not found else sum(found) / len(found)


def _extreme(values: Iterable[Any], better: Callable[[Any, Any], bool]) -> int:
    """The position of the first extreme value. A NaN wins."""
    found = list(values)
    best = 0
    if not found or isinstance(found[0], complex):
        raise Undefined
    for k, value in enumerate(found):
        if found[best] != found[best]:
            break
        if value != value or better(value, found[best]):
            best = k
    return best


def argmax(values: Iterable[Any]) -> int:
    return _extreme(values, lambda a, b: a > b)


def argmin(values: Iterable[Any]) -> int:
    return _extreme(values, lambda a, b: a < b)


def amax(*values: Any) -> Any:
    found = _given(values[0] if len(values) == 1 else values)
    return found[argmax(found)]


def amin(*values: Any) -> Any:
    found = _given(values[0] if len(values) == 1 else values)
    return found[argmin(found)]


def var(values: Iterable[Any], correction: float) -> Any:
    found = _given(values)
    center = mean(found)
    squares = np.float64(sum(abs(value - center) ** 2 for value in found))
    return squares / max(np.float64(len(found) - correction), np.float64(0))


def logsumexp(values: Iterable[Any]) -> Any:
    found = _given(values)
    return np.log(np.sum(np.exp(np.array(found))) + np.float64(0))


def softmax(scores: Iterable[Any]) -> list[Any]:
    found = list(scores)
    if not found or all(score == -math.inf for score in found):
        return [np.float64(0)] * len(found)
    most = amax(found)
    powers = [np.exp(np.float64(score - most)) for score in found]
    total = sum(powers)
    return [power / total for power in powers]


def log_softmax(scores: Iterable[Any]) -> list[Any]:
    found = list(scores)
    most = amax(found)
    total = np.log(sum(np.exp(np.float64(score - most)) for score in found))
    return [score - most - total for score in found]


def dot(a: Iterable[Any], b: Iterable[Any]) -> Any:
    return sum(x * y for x, y in zip(a, b))


def distance(differences: Iterable[Any], p: float) -> Any:
    """The p-norm. Of order 0, the number of differences other than 0."""
    found = [abs(np.float64(value)) for value in differences]
    if p == 0:
        return sum(value != 0 for value in found)
    return (
        amax([np.float64(0), *found])
        if p == math.inf
        else math.fsum(value**p for value in found) ** (1 / np.float64(p))
    )


def activate(name: str, x: Any) -> Any:
    match name:
        case "relu":
            return x if x != x else max(x, 0 * x)
        case "gelu_erf":
            return x / 2 * (1 + math.erf(x / math.sqrt(2)))
        case "gelu_tanh":
            return x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
        case "silu":
            return x / (1 + np.exp(-x))
    return x


def reflect(index: Vector, sizes: Vector) -> Vector:
    """Mirrored about the first and the last place."""
    found = []
    for i, n in zip(index, sizes):
        i = abs(i) % max(1, 2 * n - 2)
        found.append(min(i, 2 * n - 2 - i) if n > 1 else 0)
    return Vector(found)


def replicate(index: Vector, sizes: Vector) -> Vector:
    return Vector(min(max(i, 0), n - 1) for i, n in zip(index, sizes))


def reverse(index: Vector, sizes: Vector, mask: int) -> Vector:
    return Vector(n - 1 - i if mask >> d & 1 else i for d, (i, n) in enumerate(zip(index, sizes)))


def replaced(index: Vector, dim: int, value: int) -> Vector:
    return Vector(value if d == dim else i for d, i in enumerate(index))


def joined(inputs: Sequence[Elements], dim: int, before: Vector, place: int, after: Vector) -> Any:
    """The element at `place` of the inputs one after another."""
    for part in inputs:
        if place < part.sizes[dim]:
            return part[(*before, place, *after)]
        place -= part.sizes[dim]
    raise IndexError(place)


def xor(values: Iterable[Any]) -> int:
    total = 0
    for value in values:
        total ^= struct.unpack("<q", struct.pack("<d", value))[0] if isinstance(value, float) else int(value)
    return total


def ordered(values: Iterable[Any], descending: bool) -> list[int]:
    """The positions of the values in stable order. NaN is the largest value."""
    found = list(values)
    sign = -1 if descending else 1
    return sorted(range(len(found)), key=lambda k: (sign * (found[k] != found[k]), sign * found[k]))


def _running(values: Iterable[Any], better: Callable[[Any, Any], bool]) -> tuple[Any, int]:
    """The extreme value and its position: the last of equal ones, and a NaN stays until the next."""
    found = list(values)
    if isinstance(found[0], complex):
        raise Undefined
    best = 0
    for k, value in enumerate(found):
        if value != value or (found[best] == found[best] and (better(value, found[best]) or value == found[best])):
            best = k
    return found[best], best


def mode(values: Iterable[Any]) -> Any:
    """The smallest of the most frequent values."""
    found = list(values)
    if not found:
        raise Undefined
    return min(found, key=lambda value: (-found.count(value), value))


def bin(place: int, places: int, size: int) -> range:
    """The elements of a dimension that adaptive pooling joins."""
    return range(place * size // places, -(-(place + 1) * size // places))


def flat(operand: Elements) -> list[Any]:
    """All elements in row-major order."""
    return [operand[index] for index in places(operand.sizes)]


def combined(combine: str, start: Any, values: Iterable[Any]) -> Any:
    """What becomes of an element to which values are assigned, added, ... one after another."""
    for value in values:
        match combine:
            case "assign":
                start = value
            case "add":
                start = start or value if isinstance(start, bool) else start + value
            case "multiply":
                start = start * value
            case "maximum":
                start = amax(start, value)
            case "minimum":
                start = amin(start, value)
    return start


def reduced(mode: str, values: Sequence[Any]) -> Any:
    """The rows of a bag. A bag without rows is 0."""
    if not values:
        return 0
    return amax(values) if mode == "max" else sum(values) / (len(values) if mode == "mean" else 1)


def segment(reduction: str, values: Sequence[Any], length: int) -> Any:
    """The elements of a segment, with the initial value if there is one."""
    match reduction:
        case "max":
            return amax(values) if values else -math.inf
        case "min":
            return amin(values) if values else math.inf
        case "prod":
            return prod(values)
    total = np.float64(sum(values))
    return total if reduction == "sum" or (length == 0 and values) else total / length


def within(index: Vector, sizes: Vector) -> bool:
    return all(0 <= i < n for i, n in zip(index, sizes))


def median(values: Iterable[Any], ignore_nan: bool) -> int:
    """The position of the lower median in the stable order, or that of the first NaN."""
    found = list(values)
    if not found:
        raise Undefined
    missing = [k for k, value in enumerate(found) if value != value]
    kept = [k for k in ordered(found, False) if not (ignore_nan and k in missing)]
    if missing and (not ignore_nan or not kept):
        return missing[0]
    return kept[(len(kept) - 1) // 2]


def quantized(encoding: str, weight: Elements, n: int, k: int) -> Any:
    """The value of a weight that its bytes hold (`gemm_quantized`)."""
    if encoding.startswith("int4"):
        byte = int(weight[n, k // 2])
        upper = (k % 2 == 0) == (encoding == "int4")
        nibble = byte >> 4 & 15 if upper else byte & 15
        return nibble - 8 if encoding == "int4" else nibble - 16 * (nibble > 7)
    byte = int(weight[n, k])
    if encoding == "int8":
        return byte
    dtype = {"float8_e4m3fn": torch.float8_e4m3fn, "float8_e5m2": torch.float8_e5m2}[encoding]
    return np.float64(torch.tensor(byte, dtype=torch.uint8).view(dtype).float().item())


def quotient(values: Sequence[Any], divisor: int | None = None) -> Any:
    """The sum of values over a divisor, or over their number. Integers are divided towards 0."""
    found = _given(values)
    total, count = sum(found), len(found) if divisor is None else divisor
    if isinstance(total, int):
        return abs(total) // abs(count) * (1 if (total < 0) == (count < 0) else -1)
    return total / np.float64(count)


def count_nonzero(values: Iterable[Any]) -> int:
    return sum(value != 0 for value in values)


def std(values: Iterable[Any], correction: float) -> Any:
    return np.sqrt(var(values, correction))


def unbiased(values: Sequence[Any]) -> Any:
    """The variance with a correction of 1. No element at all gives -0, one gives NaN."""
    center = mean(values)
    return np.float64(sum(abs(x - center) ** 2 for x in values)) / (len(values) - 1)


def nansum(values: Iterable[Any]) -> Any:
    return sum(value for value in values if value == value)


def norm1(values: Iterable[Any]) -> Any:
    return sum(abs(value) for value in values)


def norm2(values: Iterable[Any]) -> Any:
    return np.sqrt(np.float64(sum(abs(value) ** 2 for value in values)))


def norm_inf(values: Iterable[Any]) -> Any:
    return amax([abs(value) for value in values])


def cummax(values: Iterable[Any]) -> tuple[Any, int]:
    return _running(values, lambda a, b: a > b)


def cummin(values: Iterable[Any]) -> tuple[Any, int]:
    return _running(values, lambda a, b: a < b)


def last(values: Sequence[Any], other: Any) -> Any:
    return values[-1] if values else other


def vector(*values: Any) -> Vector:
    return Vector(values)


def conj(value: Any, wanted: int = 1) -> Any:
    return value.conjugate() if wanted else value


def default(value: Any, other: Any) -> Any:
    return other if value is None else value


def sqrt(value: Any) -> Any:
    return np.sqrt(np.float64(value))


def cis(angle: float) -> complex:
    return complex(math.cos(angle), math.sin(angle))


def added(mask: Any) -> Any:
    """What a mask of attention adds to a score."""
    return 0 if mask is None or mask is True else -math.inf if mask is False else mask


FUNCTIONS: dict[str, Callable[..., Any]] = {
    name: value for name, value in globals().items() if getattr(value, "__module__", "") == __name__ and name[0] != "_"
}
# Those that have the name of a function of Python, or several names.
FUNCTIONS |= {
    "sum": lambda values: sum(_given(values)), "any": lambda values: any(value != 0 for value in values),
    "all": lambda values: all(value != 0 for value in values), "max": max, "len": len, "range": range,
    "max_dim": argmax, "min_dim": argmin, "cumsum": sum, "cumprod": prod,
}  # fmt: skip
