# SPDX-License-Identifier: BSD-3-Clause
"""The outputs of a launch as the values of csrc/sim/kernels.yaml give them, in a slow loop over their elements.

Numbers are Python's integers, doubles and complex doubles; an output takes what its dtype can hold of them.
"""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from tools.codegen.contract import kernel_values
from tools.codegen.kernels import Kernel, translations


class Undefined(Exception):
    """The value of an element is not defined: the largest of no elements, or of complex ones."""


class Vector(tuple[Any, ...]):
    """Indices or sizes of several dimensions. Arithmetic is by element; the shorter operand decides how many."""

    def _with(self, other: Any, operation: Callable[[Any, Any], Any]) -> Vector:
        others = other if isinstance(other, tuple) else itertools.repeat(other)
        return Vector(operation(a, b) for a, b in zip(self, others))

    def __add__(self, other: Any) -> Vector:  # type: ignore[override]
        return self._with(other, lambda a, b: a + b)

    def __sub__(self, other: Any) -> Vector:
        return self._with(other, lambda a, b: a - b)

    def __mul__(self, other: Any) -> Vector:  # type: ignore[override]
        return self._with(other, lambda a, b: a * b)

    def __mod__(self, other: Any) -> Vector:
        return self._with(other, lambda a, b: a % b)


@dataclass
class Elements:
    """An operand: a tensor of the host, or the value of an immediate one, or nothing."""

    tensor: torch.Tensor | None
    immediate: bool = False
    dtype: torch.dtype | None = None  # to which elements are converted when they are read

    @property
    def sizes(self) -> Vector:
        return Vector(self.tensor.shape if self.tensor is not None else ())

    def __getitem__(self, index: tuple[int, ...]) -> Any:
        if self.tensor is None:
            return None
        if self.immediate or not self.tensor.dim():
            index = ()
        if len(index) != self.tensor.dim() or not all(0 <= i < n for i, n in zip(index, self.tensor.shape)):
            raise IndexError(f"{tuple(index)} of {tuple(self.tensor.shape)}")
        value = self.tensor[tuple(index)].item()
        if self.dtype is not None:
            value = stored(value, self.dtype)
        return np.float64(value) if isinstance(value, float) else value

    def at(self, default: Any, *index: int) -> Any:
        inside = len(index) == len(self.sizes) and all(0 <= i < n for i, n in zip(index, self.sizes))
        return self[index] if inside else default


def places(of: Any) -> Iterable[Any]:
    """The places of a loop: below a size, or below all sizes of a vector, or those of a collection."""
    if isinstance(of, Vector):
        return map(Vector, itertools.product(*map(range, of)))
    return range(of) if isinstance(of, int) else of


def line(index: Vector, sizes: Vector, mask: int) -> Iterator[Vector]:
    """The indices that equal `index` but in the dimensions of the mask."""
    choices = (range(n) if mask >> d & 1 else (i,) for d, (i, n) in enumerate(zip(index, sizes)))
    return map(Vector, itertools.product(*choices))


def given(values: Iterable[Any]) -> list[Any]:
    return [value for value in values if value is not None]


def prod(values: Iterable[Any]) -> Any:
    return math.prod(given(values))


def mean(values: Iterable[Any]) -> Any:
    found = given(values)
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
    found = given(values[0] if len(values) == 1 else values)
    return found[argmax(found)]


def amin(*values: Any) -> Any:
    found = given(values[0] if len(values) == 1 else values)
    return found[argmin(found)]


def var(values: Iterable[Any], correction: float) -> Any:
    found = given(values)
    center = mean(found)
    squares = np.float64(sum(abs(value - center) ** 2 for value in found))
    return squares / max(np.float64(len(found) - correction), np.float64(0))


def logsumexp(values: Iterable[Any]) -> Any:
    found = given(values)
    return np.log(np.sum(np.exp(np.array(found))) + np.float64(0))


def softmax(scores: Iterable[Any]) -> list[Any]:
    found = list(scores)
    if not found or all(score == -math.inf for score in found):
        return [np.float64(0)] * len(found)
    most = amax(found)
    powers = [np.exp(np.float64(score - most)) for score in found]
    return [power / sum(powers) for power in powers]


def log_softmax(scores: Iterable[Any]) -> list[Any]:
    found = list(scores)
    most = amax(found)
    return [score - most - np.log(sum(np.exp(np.float64(other - most)) for other in found)) for score in found]


def dot(a: Iterable[Any], b: Iterable[Any]) -> Any:
    return sum(x * y for x, y in zip(a, b))


def distance(differences: Iterable[Any], p: float) -> Any:
    """The p-norm. Of order 0, the number of differences other than 0."""
    found = [abs(np.float64(value)) for value in differences]
    if p == 0:
        return sum(value != 0 for value in found)
    return amax([np.float64(0), *found]) if p == math.inf else sum(value**p for value in found) ** (1 / np.float64(p))


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


def bits_xor(values: Iterable[Any]) -> int:
    total = 0
    for value in values:
        total ^= struct.unpack("<q", struct.pack("<d", value))[0] if isinstance(value, float) else int(value)
    return total


def ordered(values: Iterable[Any], descending: bool) -> list[int]:
    """The positions of the values in stable order. NaN is the largest value."""
    found = list(values)
    sign = -1 if descending else 1
    return sorted(range(len(found)), key=lambda k: (sign * (found[k] != found[k]), sign * found[k]))


def running(values: Iterable[Any], better: Callable[[Any, Any], bool]) -> tuple[Any, int]:
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
    found = given(values)
    total, count = sum(found), len(found) if divisor is None else divisor
    if isinstance(total, int):
        return abs(total) // abs(count) * (1 if (total < 0) == (count < 0) else -1)
    return total / np.float64(count)


def count_nonzero(values: Iterable[Any]) -> int:
    return sum(value != 0 for value in values)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    name: globals()[name]
    for name in (
        *("places", "line", "prod", "mean", "argmax", "argmin", "amax", "amin", "var", "logsumexp", "softmax", "dot"),
        *("log_softmax", "distance", "activate", "reflect", "replicate", "reverse", "replaced", "joined", "bits_xor"),
        *("ordered", "median", "quantized", "count_nonzero", "quotient", "within", "mode"),
        *("bin", "flat", "combined", "reduced", "segment"),
    )
} | {
    "sum": lambda values: sum(given(values)),
    "any": lambda values: any(value != 0 for value in values),
    "all": lambda values: all(value != 0 for value in values),
    "xor": bits_xor,
    "std": lambda values, correction: np.sqrt(var(values, correction)),
    "nansum": lambda values: sum(value for value in values if value == value),
    "norm1": lambda values: sum(abs(value) for value in values),
    "norm2": lambda values: np.sqrt(np.float64(sum(abs(value) ** 2 for value in values))),
    "norm_inf": lambda values: amax(list(map(abs, values))),
    "max_dim": argmax, "min_dim": argmin, "cumsum": lambda values: sum(values), "cumprod": prod,
    "count": lambda values: len(given(values)),
    "unbiased": lambda values: np.float64(sum(abs(x - mean(values)) ** 2 for x in values)) / (len(values) - 1),
    "cummax": lambda values: running(values, lambda a, b: a > b),
    "cummin": lambda values: running(values, lambda a, b: a < b),
    "last": lambda values, other: values[-1] if values else other,
    "vector": lambda *values: Vector(values),
    "conj": lambda value, wanted=True: value.conjugate() if wanted else value,
    "default": lambda value, other: other if value is None else value,
    "min": min, "max": max, "abs": abs, "len": len, "range": range, "int": int, "list": list,
    "exp": lambda x: np.exp(x), "log": lambda x: np.log(np.float64(x)), "sqrt": lambda x: np.sqrt(np.float64(x)),
    "is_nan": lambda x: x != x, "cis": lambda x: complex(math.cos(x), math.sin(x)),
    "added": lambda mask: 0 if mask is None or mask is True else -math.inf if mask is False else mask,
}  # fmt: skip


class New:
    """The new value of an output at the place that is computed now."""

    def __init__(self, elements: Elements, compute: Callable[[], Any]):
        self.elements, self.compute = elements, compute

    def __getattr__(self, name: str) -> Any:
        return self.compute() if name == "new" else getattr(self.elements, name)

    def __getitem__(self, index: tuple[int, ...]) -> Any:
        return self.elements[index]


def outputs(
    kernel: Kernel, name: str, operands: dict[str, Elements | list[Elements]], parameters: dict[str, Any],
    dtype: torch.dtype,
) -> dict[str, torch.Tensor]:  # fmt: skip
    """The outputs that have a value. Raises IndexError where the launch must fault.

    `operands` has the elements before the launch, a list for a repeated operand; `parameters` the values by name.
    """
    scope: dict[str, Any] = dict(FUNCTIONS) | {f"p_{key}": value for key, value in parameters.items()}
    scope["computed"] = lambda value: value if dtype.is_floating_point or dtype.is_complex else stored(value, dtype)
    scope["this"] = FUNCTIONS.get(name.rpartition(".")[2])
    scope |= {f"o_{key}": value for key, value in operands.items()}
    for operand in kernel.operands:
        value = operands.get(operand.name)
        first = only(value) if value else None
        if first is not None and first.tensor is not None:
            for loop, size in named(operand.terms(), first.sizes, parameters).items():
                if not any("@" in term and term.startswith(f"*{loop}@") for term in operand.terms()):
                    scope.setdefault(f"n_{loop}", size)
    texts = translations(kernel.values, kernel.operands, kernel.parameters)
    codes = {output: compile(text, output, "eval") for output, text in texts.items()}
    for name in set(codes) - set(operands):
        scope[f"v_{name}"] = partial(eval, codes.pop(name), scope)
    for output, code in codes.items():
        scope[f"o_{output}"] = New(only(operands[output]), partial(eval, code, scope))
    found = {}
    for output, code in codes.items():
        tensor = only(operands[output]).tensor
        if tensor is None:
            continue
        terms = next(operand.terms() for operand in kernel.operands if operand.name == output)
        result = tensor.clone().contiguous()
        for index in itertools.product(*map(range, tensor.shape)):
            scope |= {f"i_{loop}": place for loop, place in named(terms, Vector(index), parameters).items()}
            result[index] = stored(eval(code, scope), tensor.dtype)
        found[output] = result
    return found


def only(operand: Elements | list[Elements]) -> Elements:
    """An operand, or the first of a repeated one."""
    return operand[0] if isinstance(operand, list) else operand


def named(terms: Sequence[str], index: Vector, parameters: dict[str, Any]) -> dict[str, Any]:
    """The indices, or sizes, of an operand by the loops of its map; of a group, a vector."""
    names = [kernel_values.loop(term) for term in terms]
    placed = next((k for k, term in enumerate(terms) if "@" in term and not term.startswith("*")), None)
    group = next((k for k, term in enumerate(terms) if term.startswith("*")), None)
    if placed is not None:
        index = index or Vector([0])
        dim = parameters[terms[placed].partition("@")[2]] % len(index)
        parts: list[Any] = [Vector(index[:dim]), index[dim], Vector(index[dim + 1 :])]
    elif group is not None:
        after = len(terms) - group - 1
        end = len(index) - after
        parts = [*index[:group], Vector(index[group:end]), *index[end:]]
    else:
        parts = list(index)
    return {name: part for name, part in zip(names, parts) if name}


def stored(value: Any, dtype: torch.dtype) -> Any:
    """What an element of the dtype holds of a value."""
    if dtype == torch.bool:
        return bool(value != 0)
    if dtype.is_complex:
        return complex(value)
    if isinstance(value, complex):
        value = value.real
    if dtype.is_floating_point:
        return float(value)
    if not math.isfinite(value):
        raise Undefined
    info = torch.iinfo(dtype)
    return (int(value) - info.min) % (1 << info.bits) + info.min
