# SPDX-License-Identifier: BSD-3-Clause
"""Tensors in DRAM as the scalar core reads and writes them, and loops over their elements.

Sizes, strides and addresses are words of the descriptor, so that launches of equal structure share their code.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from operator import mul
from typing import Any

import torch

from ..kernels.scalar import check_high_word
from ..network import element_bytes
from ..vir import Access
from .values import Core, Number, Value

# Kinds of values; all else is a BF16 in DRAM.
KINDS = {torch.int64: "l", torch.bool: "b"} | dict.fromkeys((torch.int32, torch.int16, torch.int8, torch.uint8), "i")


def kind_of(dtype: torch.dtype) -> str:
    return KINDS.get(dtype, "f")


@dataclass(frozen=True)
class Form:
    """What the code depends on of a tensor."""

    dtype: torch.dtype
    rank: int
    raw: bool = False  # the elements have the bytes that the caller's tensors have
    empty: bool = False  # has no elements


@dataclass(frozen=True)
class Tensor:
    """An operand of a routine, or a view of it: words `a{n}` (address), `n{n}_{d}` (sizes), `t{n}_{d}` (strides in
    bytes).

    dims: the dimensions of the operand that the view has; None: it does not move along one. place: the address of its
    first element, by default that of the operand.
    """

    core: Core
    number: int
    form: Form
    dims: tuple[int | None, ...]
    place: Value | None = None

    @property
    def kind(self) -> str:
        return kind_of(self.form.dtype)

    @property
    def rank(self) -> int:
        return len(self.dims)

    @property
    def start(self) -> Value:
        return self.core.parameter(f"a{self.number}") if self.place is None else self.place

    def size(self, dim: int) -> Value:
        return self.core.parameter(f"n{self.number}_{self.dims[dim]}")

    def stride(self, dim: int) -> Value:
        """In bytes."""
        return self.core.parameter(f"t{self.number}_{self.dims[dim]}")

    def count(self) -> Value:
        """The number of elements."""
        return reduce(mul, map(self.size, range(self.rank)), self.core.value(1))

    # -- views ---------------------------------------------------------------------------------------------------------
    def moved_to(self, place: Value) -> Tensor:
        """The view whose first element has this address."""
        return replace(self, place=place)

    def shifted(self, dim: int, index: Value | int) -> Tensor:
        """From another element along a dimension on."""
        step = self.stride(dim)
        if isinstance(index, int):
            if index == 0:
                return self
            distance = step if index == 1 else step * index
        else:
            distance = index.as_kind("i") * step
        return self.moved_to(self.start + distance)

    def select(self, dim: int, index: Value | int) -> Tensor:
        """What lies at an index of a dimension."""
        dims = [*self.dims]
        del dims[dim]
        return replace(self.shifted(dim, index), dims=tuple(dims))

    def __getitem__(self, indices: Value | int | Sequence[Value | int]) -> Tensor:
        """What lies at indices of the first dimensions."""
        found = self
        for index in indices if isinstance(indices, Sequence) else [indices]:
            found = found.select(0, index)
        return found

    def permuted(self, dims: Sequence[int]) -> Tensor:
        return replace(self, dims=tuple(self.dims[dim] for dim in dims))

    def unsqueezed(self, dim: int) -> Tensor:
        """The view with one more dimension, along which it stays where it is."""
        return replace(self, dims=(*self.dims[:dim], None, *self.dims[dim:]))

    # -- elements ------------------------------------------------------------------------------------------------------
    def load(self) -> Value:
        """The first element."""
        if self.form.raw:
            return self._load_raw()
        core, kind, place = self.core, self.kind, self.start.reg
        reads = (Access("dram", False),)
        out = core.b.x()
        if kind in "fb":
            core.b.emit("lhw.s", out, 0, place, access=reads)
            value = core.wrap(out, "f")
            return core.nonzero(value) if kind == "b" else value
        core.b.emit("lw.s", out, 0, place, access=reads)
        if kind == "l":
            high = core.b.x()
            core.b.emit("lw.s", high, 4, place, access=reads)
            check_high_word(core.b, out, high)
        return core.wrap(out, kind)

    def store(self, value: Value | Number, is_bf16: bool = False) -> None:
        """Into the first element. is_bf16: a value of kind "f" needs no rounding."""
        core, kind = self.core, self.kind
        given = self._wrapped(core.convert(core.value(value, kind), kind))
        if self.form.raw:
            self._store_raw(given)
            return
        place, writes = self.start.reg, (Access("dram", True),)
        if kind in "fb":
            if kind == "b":
                given = core.new("stbf.s", "f", given)
            elif isinstance(value, Value) and not is_bf16:
                given = core.rounded(given)
            core.b.emit("shw.s", given.reg, 0, place, access=writes)
            return
        core.b.emit("sw.s", given.reg, 0, place, access=writes)
        if kind == "l":
            core.b.emit("sw.s", given.as_kind("i").shifted("sra.s", 31).reg, 4, place, access=writes)

    def copy(self, source: Tensor) -> None:
        """The bits of the first element of a tensor of this dtype."""
        core, nbytes = self.core, element_bytes(self.form.dtype)
        names = ("lhw.s", "shw.s") if nbytes == 2 else ("lw.s", "sw.s")
        for offset in range(0, max(nbytes, 4), 4):
            word = core.b.x()
            core.b.emit(names[0], word, offset, source.start.reg, access=(Access("dram", False),))
            core.b.emit(names[1], word, offset, self.start.reg, access=(Access("dram", True),))

    def _wrapped(self, x: Value) -> Value:
        """An integer of fewer than 32 bits, which wraps."""
        unused = 32 - 8 * self.form.dtype.itemsize
        if x.kind != "i" or unused <= 0:
            return x
        return x.shifted("sll.s", unused).shifted("sra.s" if self.form.dtype.is_signed else "srl.s", unused)

    # -- elements as the caller stores them ----------------------------------------------------------------------------
    def _load_raw(self) -> Value:
        core = self.core
        word, shift = self._word()
        if self.form.dtype.itemsize == 4:
            return word.as_kind(self.kind)
        moved = core.new("srl.s", "i", word, shift)
        found = self._wrapped(moved) if self.kind == "i" else moved.bitwise("and.s", core.bits(255))
        return core.nonzero(found) if self.kind == "b" else found

    def _store_raw(self, value: Value) -> None:
        core, nbytes = self.core, self.form.dtype.itemsize
        given = value.as_kind("i")
        word, shift = self._word()
        if nbytes < 4:
            mask = core.bits((1 << 8 * nbytes) - 1)
            kept = word.bitwise("and.s", ~core.new("sll.s", "i", mask, shift))
            given = kept.bitwise("or.s", core.new("sll.s", "i", given.bitwise("and.s", mask), shift))
        first = core.b.s("andi.s", self.start.reg, -4)
        core.b.emit("sw.s", given.reg, 0, first, access=(Access("dram", True),))

    def _word(self) -> tuple[Value, Value]:
        """The word in which the first element lies, and how many bits stand before it."""
        core, place = self.core, self.start.reg
        word = core.b.x()
        first = core.b.s("andi.s", place, -4)
        core.b.emit("lw.s", word, 0, first, access=(Access("dram", False),))
        shift = core.b.s("slli.s", core.b.s("andi.s", place, 3), 3)
        return core.wrap(word, "i"), core.wrap(shift, "i")

    # -- loops ---------------------------------------------------------------------------------------------------------
    def each(self, *operands: Operand) -> AbstractContextManager[list[Any]]:
        """Passes over all elements; as `over`."""
        return self.over(range(self.rank), *operands)

    def lines(self, dim: int, *operands: Operand) -> AbstractContextManager[list[Any]]:
        """Passes over all lines along a dimension; as `over`."""
        return self.over([d for d in range(self.rank) if d != dim], *operands)

    @contextmanager
    def over(self, dims: Sequence[int], *operands: Operand) -> Iterator[list[Any]]:
        """Passes over these dimensions, of this tensor's sizes. Gives views of the operands (by default of this tensor)
        without the dimensions: what lies at the place of the pass. Operands that are no tensors stay what they are."""
        here = [*operands] if operands else [self]
        with ExitStack() as stack:
            for dim in dims:
                here = stack.enter_context(self._level(dim, here))
            yield [x._without(dims) if isinstance(x, Tensor) else x for x in here]

    @contextmanager
    def _level(self, dim: int, operands: Sequence[Operand]) -> Iterator[list[Any]]:
        core = self.core
        mine = [x.moved_to(core.variable(x.start)) if isinstance(x, Tensor) else x for x in operands]
        with core.b.loop(self.size(dim).reg, skip_empty=self.form.empty):
            yield mine
            for x in mine:
                if isinstance(x, Tensor) and x.dims[dim] is not None:
                    core.b.emit("add.s", x.start.reg, x.start.reg, x.stride(dim).reg)

    def _without(self, dims: Sequence[int]) -> Tensor:
        return replace(self, dims=tuple(d for k, d in enumerate(self.dims) if k not in dims))


Operand = Tensor | Value | None


def words_of(number: int, address: object, sizes: Sequence[int], strides: Sequence[int], nbytes: int) -> dict:
    """The words of a tensor, strides in elements of `nbytes` bytes."""
    words = {f"a{number}": address}
    for dim, (size, stride) in enumerate(zip(sizes, strides)):
        words[f"n{number}_{dim}"] = size
        words[f"t{number}_{dim}"] = stride * nbytes
    return words
