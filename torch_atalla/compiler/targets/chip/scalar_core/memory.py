# SPDX-License-Identifier: BSD-3-Clause
"""Tensors in DRAM as the scalar core reads and writes them, and loops over their elements.

Sizes, strides and addresses are words of the descriptor, so that launches of equal structure share their code.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass

import torch

from torch_atalla.driver import c_abi

from ..network import element_bytes
from ..vir import Access, Reg
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
    """An operand of a routine: words `a{n}` (address), `n{n}_{d}` (sizes), `t{n}_{d}` (strides in bytes)."""

    core: Core
    number: int
    form: Form

    @property
    def kind(self) -> str:
        return kind_of(self.form.dtype)

    @property
    def rank(self) -> int:
        return self.form.rank

    @property
    def start(self) -> Value:
        return self.core.parameter(f"a{self.number}")

    def size(self, dim: int) -> Value:
        return self.core.parameter(f"n{self.number}_{dim % self.rank}")

    def stride(self, dim: int) -> Value:
        """In bytes."""
        return self.core.parameter(f"t{self.number}_{dim % self.rank}")

    def at(self, place: Value, dim: int, index: Value | int) -> Value:
        """The address `index` elements along a dimension from another address."""
        step = self.stride(dim)
        if isinstance(index, int):
            return place + step * index if index else place
        return place + index.as_kind("i") * step

    def element(self, indices: Sequence[Value | int]) -> Value:
        place = self.start
        for dim, index in enumerate(indices):
            place = self.at(place, dim, index)
        return place

    # -- elements ------------------------------------------------------------------------------------------------------
    def load(self, place: Value) -> Value:
        core, kind = self.core, self.kind
        if self.form.raw:
            return RAW.load(self, place)
        reads = (Access("dram", False),)
        out = core.b.x()
        if kind in "fb":
            core.b.emit("lhw.s", out, 0, place.reg, access=reads)
            value = core.wrap(out, "f")
            return core.nonzero(value) if kind == "b" else value
        core.b.emit("lw.s", out, 0, place.reg, access=reads)
        value = core.wrap(out, kind)
        if kind == "l":
            high = core.b.x()
            core.b.emit("lw.s", high, 4, place.reg, access=reads)
            whole = core.wrap(high, "i").equals(value.as_kind("i").shifted("sra.s", 31))
            core.fault_unless(whole, c_abi.ATALLA_ISA_FAULT_INTEGER, value, core.wrap(high, "i"))
        return value

    def store(self, place: Value, value: Value | Number, is_bf16: bool = False) -> None:
        """is_bf16: a value of kind "f" needs no rounding."""
        core, kind = self.core, self.kind
        given = self._wrapped(core.convert(core.value(value, kind), kind))
        if self.form.raw:
            RAW.store(self, place, given)
            return
        writes = (Access("dram", True),)
        if kind in "fb":
            if kind == "b":
                given = core.new("stbf.s", "f", given)
            elif isinstance(value, Value) and not is_bf16:
                given = core.rounded(given)
            core.b.emit("shw.s", given.reg, 0, place.reg, access=writes)
            return
        core.b.emit("sw.s", given.reg, 0, place.reg, access=writes)
        if kind == "l":
            core.b.emit("sw.s", given.as_kind("i").shifted("sra.s", 31).reg, 4, place.reg, access=writes)

    def _wrapped(self, x: Value) -> Value:
        """An integer of fewer than 32 bits, which wraps."""
        unused = 32 - 8 * self.form.dtype.itemsize
        if x.kind != "i" or unused <= 0:
            return x
        return x.shifted("sll.s", unused).shifted("sra.s" if self.form.dtype.is_signed else "srl.s", unused)

    def copy_element(self, target: Value, source: Value) -> None:
        """The bits of an element that has this tensor's dtype."""
        core = self.core
        names = ("lhw.s", "shw.s") if element_bytes(self.form.dtype) == 2 else ("lw.s", "sw.s")
        for offset in range(0, max(element_bytes(self.form.dtype), 4), 4):
            word = core.b.x()
            core.b.emit(names[0], word, offset, source.reg, access=(Access("dram", False),))
            core.b.emit(names[1], word, offset, target.reg, access=(Access("dram", True),))

    # -- loops ---------------------------------------------------------------------------------------------------------
    @contextmanager
    def each(self, dims: Sequence[int], places: Mapping[Tensor, Value] | Sequence[Tensor]) -> Iterator[list[Value]]:
        """Passes over these dimensions of this tensor's sizes, with an address in each of the tensors, which start
        where `places` says, or at their first elements."""
        given = places if isinstance(places, Mapping) else {tensor: tensor.start for tensor in places}
        with ExitStack() as stack:
            here = dict(given)
            for dim in dims:
                here = stack.enter_context(self._level(dim, here))
            yield [here[tensor] for tensor in given]

    def loop(self, dim: int) -> AbstractContextManager[Reg]:
        """As often as the tensor has elements along a dimension."""
        return self.core.b.loop(self.size(dim).reg, skip_empty=self.form.empty)

    @contextmanager
    def _level(self, dim: int, places: Mapping[Tensor, Value]) -> Iterator[dict[Tensor, Value]]:
        core = self.core
        mine = {tensor: core.variable(place) for tensor, place in places.items()}
        with self.loop(dim):
            yield mine
            for tensor, place in mine.items():
                core.b.emit("add.s", place.reg, place.reg, tensor.stride(dim).reg)


class RAW:
    """Elements as the caller stores them."""

    @staticmethod
    def load(tensor: Tensor, place: Value) -> Value:
        core, nbytes = tensor.core, tensor.form.dtype.itemsize
        word, shift = RAW._word(tensor, place)
        if nbytes == 4:
            return word.as_kind(tensor.kind)
        moved = core.new("srl.s", "i", word, shift)
        found = tensor._wrapped(moved) if tensor.kind == "i" else moved.bitwise("and.s", core.bits(255))
        return core.nonzero(found) if tensor.kind == "b" else found

    @staticmethod
    def store(tensor: Tensor, place: Value, value: Value) -> None:
        core, nbytes = tensor.core, tensor.form.dtype.itemsize
        given = value.as_kind("i")
        word, shift = RAW._word(tensor, place)
        if nbytes < 4:
            mask = core.bits((1 << 8 * nbytes) - 1)
            kept = word.bitwise("and.s", ~core.new("sll.s", "i", mask, shift))
            given = kept.bitwise("or.s", core.new("sll.s", "i", given.bitwise("and.s", mask), shift))
        first = core.wrap(core.b.s("andi.s", place.reg, -4), "i")
        core.b.emit("sw.s", given.reg, 0, first.reg, access=(Access("dram", True),))

    @staticmethod
    def _word(tensor: Tensor, place: Value) -> tuple[Value, Value]:
        """The word in which an element lies, and how many bits stand before it."""
        core = tensor.core
        word = core.b.x()
        first = core.b.s("andi.s", place.reg, -4)
        core.b.emit("lw.s", word, 0, first, access=(Access("dram", False),))
        shift = core.b.s("slli.s", core.b.s("andi.s", place.reg, 3), 3)
        return core.wrap(word, "i"), core.wrap(shift, "i")


def words_of(number: int, address: object, sizes: Sequence[int], strides: Sequence[int], nbytes: int) -> dict:
    """The words of a tensor, strides in elements of `nbytes` bytes."""
    words = {f"a{number}": address}
    for dim, (size, stride) in enumerate(zip(sizes, strides)):
        words[f"n{number}_{dim}"] = size
        words[f"t{number}_{dim}"] = stride * nbytes
    return words
