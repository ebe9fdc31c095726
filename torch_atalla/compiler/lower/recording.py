# SPDX-License-Identifier: BSD-3-Clause
"""Eager mode's launches for one op, as numbers that no longer refer to addresses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch.utils import _pytree as pytree

from torch_atalla.driver.dtypes import DTYPES
from torch_atalla.loadable.errors import NotNativeError

from ..program.call_arguments import as_call
from ..program.kernels import contract, pack, unpack
from ..program.vector_program import stripped
from .value import Value

NO_KERNEL = "no native kernel"


class RefusedError(NotNativeError):
    """Eager mode refuses the arguments, or has no kernel for them."""


class Block(str):
    """The name of a piece of memory. It is no number, so that no size of it can be mistaken for another."""


class Place(NamedTuple):
    """A strided tensor in a block. An empty tensor has no block."""

    block: Block | None
    offset: int  # bytes
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype


class Number(NamedTuple):
    """An immediate operand."""

    value: bool | int | float
    dtype: torch.dtype


class Recorded(NamedTuple):
    """One launch."""

    kernel: str
    outputs: tuple[Place | None, ...]
    inputs: tuple[Place | Number | None, ...]
    compute: torch.dtype
    iparams: tuple[int, ...]
    fparams: tuple[float, ...]


class Trace(NamedTuple):
    """All launches of an op. `arguments` are the blocks of its tensors, in order, without those of empty tensors."""

    launches: list[Recorded]
    blocks: dict[str, tuple[int, bytes | None]]  # but those of arguments: bytes, and what the host wrote there
    arguments: list[Block]
    results: Any  # places, as the op returns tensors
    drawn: int  # positions of the random sequence


def record(target: Any, arguments: dict[str, Any], number: Callable[[Any], int] = int) -> Trace:
    """Runs an op on placeholder memory. `number` gives the value of a size. Raises NotNativeError if eager mode does
    more than launch kernels."""
    from torch_atalla.driver.extension import _C

    given: list[int] = []  # addresses of arguments
    try:
        # Without gradients and autocast, as programs are.
        with torch.no_grad(), torch._C._DisableAutocast():
            outcome = _C.record_launches(lambda: _call(target, arguments, number, given))
    except NotNativeError:
        raise
    except Exception as error:
        native = torch._C._dispatch_has_kernel_for_dispatch_key(target.name(), "PrivateUse1")
        text = str(error).strip().splitlines()
        raise RefusedError(text[0] if native and text else NO_KERNEL) from None
    result, launches, blocks, drawn = outcome
    names = _Names(blocks)
    arguments_blocks = [names.of(address)[0] for address in given]
    made = {names.of(begin)[0]: (nbytes, content) for begin, nbytes, content in blocks}
    return Trace(
        [_recorded(names, *launch) for launch in launches],
        {name: block for name, block in made.items() if name not in arguments_blocks},
        arguments_blocks,
        pytree.tree_map(names.result, tuple(result) if isinstance(result, list) else result),
        drawn,
    )


def _call(target: Any, arguments: dict[str, Any], number: Callable[[Any], int], given: list[int]) -> Any:
    def placeholder(value: Any) -> Any:
        if not isinstance(value, Value):
            return number(value) if isinstance(value, torch.SymInt) else value
        operand = value.operand()
        sizes, strides = [number(size) for size in operand.sizes], [number(stride) for stride in operand.strides]
        tensor = torch.empty_strided(sizes, strides, dtype=operand.dtype, device="atalla")
        if tensor.numel() > 0:
            given.append(tensor.data_ptr())
        return tensor

    values = pytree.tree_map(placeholder, arguments)
    if "device" in values:
        values["device"] = torch.device("atalla")
    args, kwargs = as_call(target, values)
    return target(*args, **kwargs)


class _Names:
    """Of the blocks of one recording: (address, bytes, content) each."""

    def __init__(self, blocks: list[tuple[int, int, bytes | None]]) -> None:
        self.blocks = [(begin, begin + nbytes, Block(f"block {i}")) for i, (begin, nbytes, _) in enumerate(blocks)]

    def of(self, address: int) -> tuple[Block, int]:
        """The block of an address, and the offset in it."""
        for begin, end, name in self.blocks:
            if begin <= address < end:
                return name, address - begin
        raise NotNativeError("eager mode uses memory of its own")

    def place(self, address: int, sizes: Sequence[int], strides: Sequence[int], dtype: torch.dtype) -> Place:
        block, offset = (None, 0) if 0 in sizes else self.of(address)
        return Place(block, offset, tuple(sizes), tuple(strides), dtype)

    def operand(self, recorded: tuple | None) -> Place | Number | None:
        if recorded is None:
            return None
        *where, code = recorded
        dtype = DTYPES[code]
        if len(where) > 1:
            address, sizes, strides = where
            return self.place(address, sizes, strides, dtype)
        return Number(torch.frombuffer(bytearray(where[0]), dtype=dtype, count=1).item(), dtype)

    def result(self, tensor: Any) -> Any:
        if tensor is None:  # a gradient that is not asked for
            return None
        if not isinstance(tensor, torch.Tensor):
            raise NotNativeError("a result that is no tensor")
        return self.place(tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype)


def _recorded(
    names: _Names, kernel: int, n_outputs: int, compute: int, operands: list, iparams: Sequence, fparams: Sequence
) -> Recorded:
    seen: Any = [names.operand(operand) for operand in operands]
    outputs, inputs = tuple(seen[:n_outputs]), tuple(seen[n_outputs:])
    name, dtype = _kernel_names()[kernel], DTYPES[compute]
    if "formula" in contract(name).traits:
        iparams = _without_presence(name, dtype, iparams, fparams)
    return Recorded(name, outputs, inputs, dtype, stripped(iparams), stripped(fparams))


def _without_presence(kernel: str, dtype: torch.dtype, iparams: Sequence, fparams: Sequence) -> Sequence:
    """Without the word, the last one, that says which scalars of a formula are given, if a launch always has them."""
    parameters = contract(kernel).parameters
    if any(parameter.present is not None for parameter in parameters.values()):
        return iparams
    short = pack(kernel, dtype, {name: unpack(kernel, dtype, name, iparams, fparams) for name in parameters})[0]
    return short if short == stripped(iparams[:-1]) else iparams


@lru_cache(maxsize=1)
def _kernel_names() -> list[str]:
    from torch_atalla.driver.extension import _C

    return _C.kernels()
