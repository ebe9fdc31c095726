# SPDX-License-Identifier: BSD-3-Clause
"""Recordings of one op for several sizes, joined to one recording whose numbers are expressions of the sizes."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import combinations_with_replacement, islice, product
from math import prod
from typing import Any

import sympy
import torch
from torch.utils import _pytree as pytree

from torch_atalla.loadable.errors import NotNativeError

from ..program.assignment import Assignment
from ..program.kernels import contract, replace_parameters, unpack
from ..program.sizes import Size, Symbols, current_symbols, expression_of, is_symbolic, make_size, to_size
from .recording import Recorded, RefusedError, Trace, record
from .value import Value

_SAMPLES = 8  # for one symbol; each further one adds half as many
_LEAST = 3
_TRIES = 4096


def record_for_all_sizes(node: torch.fx.Node, arguments: dict[str, Any]) -> Trace:
    """Records the op for several sizes, and requires the same launches for all of them. Each number of theirs must be
    one expression of the sizes for all samples. Raises NotNativeError otherwise."""
    symbols = current_symbols()
    leaves = pytree.tree_leaves(arguments)
    if symbols is None or any(is_symbolic(leaf) and not isinstance(leaf, torch.SymInt) for leaf in leaves):
        raise NotNativeError("a number depends on a dynamic size")
    used = _used(symbols, leaves)
    samples, traces = _recordings(node, arguments, _samples(symbols, used, leaves))
    if traces[0].drawn and not symbols.bounded:
        raise NotNativeError("draws random numbers for a size without upper bound; expected Dim(..., max=...)")
    traces = [_draws_as(trace, traces[0]) for trace in traces]
    flat = [pytree.tree_flatten(trace) for trace in traces]
    if any(spec != flat[0][1] for _, spec in flat):
        raise NotNativeError("eager mode launches other kernels for other sizes")
    fit = _Fit(samples, list(dict.fromkeys([*_atoms(_tensors(node)), *_atoms(leaves)])))
    joined = [fit.joined(column) for column in zip(*(numbers for numbers, _ in flat), strict=True)]
    trace = pytree.tree_unflatten(joined, flat[0][1])
    _exclude_nothing(node, arguments, symbols, used, trace)
    return trace


def _recordings(
    node: torch.fx.Node, arguments: dict[str, Any], samples: Sequence[Assignment]
) -> tuple[list[Assignment], list[Trace]]:
    """Of the planned sizes, which come first, and of the others but those that eager mode refuses."""
    found = [(samples[0], record(node.target, arguments, samples[0].number))]
    for sample in samples[1:]:
        with suppress(RefusedError):
            found.append((sample, record(node.target, arguments, sample.number)))
    if len(found) < min(len(samples), _LEAST):
        raise NotNativeError("eager mode refuses most of the sizes")
    return [sample for sample, _ in found], [trace for _, trace in found]


def _tensors(node: torch.fx.Node) -> list[torch.Tensor]:
    return [item for item in pytree.tree_leaves(node.meta["val"]) if isinstance(item, torch.Tensor)]


def _used(symbols: Symbols, leaves: list[Any]) -> list[int]:
    """The positions of the symbols that the arguments depend on."""
    free = set().union(*(expression.free_symbols for expression in _atoms(leaves)))
    return [i for i, symbol in enumerate(symbols.symbols) if symbol.symbol in free]


def _samples(symbols: Symbols, used: list[int], leaves: list[Any]) -> list[Assignment]:
    """The planning assignment, and others that the conditions allow. Sizes of 0 and 1 count only where no others are
    possible: eager mode has launches of its own for them, and those for larger sizes give the same."""
    given = [size for leaf in leaves if isinstance(leaf, Value) for size in leaf.operand().sizes]
    narrow = {symbol.symbol for symbol in symbols.symbols if symbol.max == 2}
    sizes = {size.expr for size in given if isinstance(size, Size) and size > 1 and not size.expr.free_symbols & narrow}
    planned = tuple(symbol.value for symbol in symbols.symbols)
    pools = [_pool(symbol.min, symbol.max, symbol.value) for symbol in (symbols.symbols[i] for i in used)]
    wanted = _SAMPLES * (len(used) + 1) // 2
    few = prod(map(len, pools)) <= _TRIES
    drawing = random.Random(0)
    choices = list(product(*pools)) if few else [tuple(map(drawing.choice, pools)) for _ in range(_TRIES)]
    drawing.shuffle(choices)
    choices.insert(0, tuple(pool[0] for pool in pools))

    def allowed() -> Any:
        for values in choices:
            chosen = dict(zip(used, values))
            every = tuple(chosen.get(i, value) for i, value in enumerate(planned))
            if every != planned and symbols.allow(every):
                sample = Assignment(symbols, every)
                if all(sample.evaluate(size) > 1 for size in sizes):
                    yield sample

    return [Assignment(symbols, planned), *islice(allowed(), wanted - 1)]


def _pool(low: int, high: int, value: int) -> list[int]:
    least, low = low, min(max(low, 2), high)
    if low == high and least < low:
        return [least, low]  # a number that follows the size must not look like a constant
    near = {*range(low, min(high, low + 63) + 1)}
    far = {value * factor + step for factor in (1, 2, 5) for step in (0, 1, 3)}
    return sorted(near | {size for size in far if low <= size <= high} | ({high} if high <= value else set()))


def _draws_as(trace: Trace, first: Trace) -> Trace:
    """With the random positions of the planned sizes, the largest: positions of draws do not follow the sizes."""
    if len(trace.launches) != len(first.launches):
        return trace
    launches = [_drawn_at(*pair) for pair in zip(trace.launches, first.launches)]
    return trace._replace(launches=launches, drawn=first.drawn)


def _drawn_at(launch: Recorded, first: Recorded) -> Recorded:
    if launch.kernel != first.kernel or "random" not in contract(launch.kernel).traits:
        return launch
    offset = unpack(first.kernel, first.compute, "offset", first.iparams, first.fparams)
    numbers = launch.iparams, launch.fparams
    iparams, fparams = replace_parameters(launch.kernel, launch.compute, *numbers, seed=0, offset=offset)
    return launch._replace(iparams=iparams, fparams=fparams)


def _atoms(leaves: list[Any]) -> list[Any]:
    """Expressions of which the numbers of launches consist: sizes and strides of tensors, products of neighbouring
    sizes, and integer arguments."""
    found: dict[Any, None] = {}
    for leaf in leaves:
        if isinstance(leaf, torch.SymInt):
            numbers = [to_size(leaf)]
        elif isinstance(leaf, (Value, torch.Tensor)):
            meta = leaf.meta if isinstance(leaf, Value) else leaf
            sizes, strides = [[to_size(n) for n in some] for some in (meta.shape, meta.stride())]
            runs = [sizes[i:j] for i in range(len(sizes)) for j in range(i + 1, len(sizes) + 1)]
            numbers = [*sizes, *strides, to_size(meta.storage_offset()), *(prod(run[1:], start=run[0]) for run in runs)]
        else:
            continue
        found |= {number.expr: None for number in numbers if isinstance(number, Size)}
    for expression in list(found):
        found |= dict.fromkeys(sorted(expression.free_symbols, key=str))
    return sorted(found, key=lambda expression: expression.count_ops())


class _Fit:
    """Finds the expression of a number from its values for the samples."""

    def __init__(self, samples: list[Assignment], atoms: list[Any]) -> None:
        self.columns = [(atom, [sample.evaluate(atom) for sample in samples]) for atom in atoms]
        self.known: dict[tuple[int, ...], int] = {}

    def joined(self, column: tuple[Any, ...]) -> Any:
        if all(type(item) is type(column[0]) and repr(item) == repr(column[0]) for item in column):
            return column[0]
        if any(type(item) is not int for item in column):
            raise NotNativeError("a number of eager mode's launches depends on a dynamic size")
        if column not in self.known:
            self.known[column] = self.expression(column)
        return self.known[column]

    def expression(self, values: tuple[int, ...]) -> int:
        for atom, column in self.columns:
            if (line := _line(column, values)) is not None:
                return make_size(values[0], line[0] * atom + line[1])
        for (a, first), (b, second) in combinations_with_replacement(self.columns, 2):
            if (line := _line([x * y for x, y in zip(first, second)], values)) is not None:
                return make_size(values[0], line[0] * a * b + line[1])
        raise NotNativeError("a number of eager mode's launches is no simple expression of the sizes")


def _line(of: list[int], values: tuple[int, ...]) -> tuple[int, int] | None:
    """(a, b) with values = a * of + b for all samples."""
    other = next((i for i, number in enumerate(of) if number != of[0]), None)
    if other is None:
        return None
    a, rest = divmod(values[other] - values[0], of[other] - of[0])
    b = values[0] - a * of[0]
    return (a, b) if rest == 0 and all(a * x + b == value for x, value in zip(of, values)) else None


def _exclude_nothing(
    node: torch.fx.Node, arguments: dict[str, Any], symbols: Symbols, used: list[int], trace: Trace
) -> None:
    """An empty argument leaves nothing to compute if the results are empty too. Otherwise the program takes it only if
    eager mode does, and if index maps tell what the kernels compute from nothing: eager mode may launch others."""
    counts = [expression_of(to_size(result.numel())) for result in _tensors(node)]
    for i in used:
        symbol = symbols.symbols[i]
        empty = tuple(0 if k == i else other.value for k, other in enumerate(symbols.symbols))
        if symbol.min > 0 or not symbols.allow(empty):
            continue
        try:
            if all(count.xreplace({symbol.symbol: sympy.Integer(0)}) == 0 for count in counts):
                continue
        except ZeroDivisionError:  # a size is a quotient by this one
            symbols.symbols[i] = replace(symbol, min=1)
            continue
        if not all(contract(launch.kernel).maps for launch in trace.launches) or _refuses(
            node, arguments, symbols, empty
        ):
            symbols.symbols[i] = replace(symbol, min=1)


def _refuses(node: torch.fx.Node, arguments: dict[str, Any], symbols: Symbols, values: tuple[int, ...]) -> bool:
    try:
        record(node.target, arguments, Assignment(symbols, values).number)
    except RefusedError:
        return True
    return False
