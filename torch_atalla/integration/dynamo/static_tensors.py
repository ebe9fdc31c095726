# SPDX-License-Identifier: BSD-3-Clause
"""Copies of the tensors of a device graph that keep sizes, strides, lazy bits and shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from torch_atalla.compiler.program.layouts import are_distinct, span


def layout(tensor: Tensor) -> tuple[Any, ...]:
    """Return all facts of a tensor that compiled code may depend on, except its values and its place in memory."""
    return (tensor.dtype, tensor.shape, tensor.stride(), tensor.is_conj(), tensor.is_neg())


def _stored(tensor: Tensor) -> Tensor:
    """Return a view without lazy bits: the values as they are in memory."""
    stored = tensor.conj() if tensor.is_conj() else tensor
    return torch._neg_view(stored) if stored.is_neg() else stored


def _with_bits(stored: Tensor, example: Tensor) -> Tensor:
    """Return a view of stored values with the lazy bits of `example`."""
    tensor = torch._neg_view(stored) if example.is_neg() else stored
    return tensor.conj() if example.is_conj() else tensor


def _cover(tensor: Tensor) -> Tensor:
    """Return a view that has each element of the memory of `tensor` at most once: the target of a copy."""
    stored = _stored(tensor)
    if are_distinct(stored.shape, stored.stride()):
        return stored
    return stored.as_strided((span(stored.shape, stored.stride()),), (1,))


def _at(memory: Tensor, dtype: torch.dtype, offset: int, example: Tensor) -> Tensor:
    """Return a tensor in the storage of `memory` with the sizes and strides of `example`."""
    made = torch.empty(0, dtype=dtype, device=memory.device)
    return made.set_(memory.untyped_storage(), offset, example.shape, example.stride())


class StaticInput:
    """Memory of one input of a graph. `load` copies the values of an argument into it."""

    def __init__(self, example: Tensor):
        stored = _stored(example)
        memory = torch.empty(span(stored.shape, stored.stride()), dtype=stored.dtype, device=stored.device)
        self.tensor = _with_bits(memory.as_strided(stored.shape, stored.stride()), example)
        self._target = _cover(self.tensor)

    def load(self, given: Tensor) -> None:
        self._target.copy_(_cover(given))


class StaticOutputs:
    """Results of a graph, in its memory.

    Results of a replay are copies that share memory with each other exactly as the graph's do. A result that shares
    memory with an input of the graph is a view of the argument.
    """

    def __init__(self, outputs: Sequence[Any], inputs: Sequence[Tensor]):
        self.tensors = [item for item in outputs if isinstance(item, Tensor)]
        self._outputs = outputs
        self._inputs = {tensor.untyped_storage()._cdata: (i, tensor) for i, tensor in enumerate(inputs)}
        shares: dict[int, int] = {}
        for key in {id(item): item.untyped_storage()._cdata for item in self.tensors}.values():
            shares[key] = shares.get(key, 0) + 1
        self._alone = {
            id(item)
            for item in self.tensors
            if shares[item.untyped_storage()._cdata] == 1 and item.untyped_storage().nbytes() == item.nbytes
            and are_distinct(item.shape, item.stride()) and not item.is_conj() and not item.is_neg()
        }  # fmt: skip

    def results(self, args: Sequence[Tensor]) -> tuple[Any, ...]:
        """Return the results of a replay for `args`, which have been loaded."""
        made: dict[int, Tensor] = {}
        memories: dict[int, Tensor] = {}
        return tuple(
            self._result(item, args, made, memories) if isinstance(item, Tensor) else item for item in self._outputs
        )

    def _result(self, item: Tensor, args: Sequence[Tensor], made: dict[int, Tensor], memories: dict[int, Tensor]):
        if id(item) in made:
            return made[id(item)]
        storage = item.untyped_storage()._cdata
        if storage in self._inputs:
            number, static = self._inputs[storage]
            result = self._view_of(args[number], static, item)
        elif id(item) in self._alone:
            result = item.clone()
        else:
            if storage not in memories:
                whole = torch.empty(0, dtype=torch.uint8, device=item.device).set_(item.untyped_storage())
                memories[storage] = whole.clone()
            stored = _stored(item)
            result = _with_bits(_at(memories[storage], item.dtype, int(stored.storage_offset()), stored), item)
        made[id(item)] = result
        return result

    def _view_of(self, given: Tensor, static: Tensor, item: Tensor) -> Tensor:
        """Return the view of an argument that `item` is of the graph's copy of it."""
        stored = _stored(item)
        moved = given.storage_offset() * given.itemsize - static.storage_offset() * static.itemsize
        offset, rest = divmod(int(stored.storage_offset() * item.itemsize + moved), item.itemsize)
        if rest:
            raise RuntimeError(
                f"the storage offset of an argument is not a multiple of the {item.itemsize} bytes of {item.dtype}, "
                "to which the compiled function views it; copy the argument first"
            )
        return _with_bits(_at(given, item.dtype, offset, stored), item)
