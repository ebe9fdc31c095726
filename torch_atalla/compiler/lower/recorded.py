# SPDX-License-Identifier: BSD-3-Clause
"""Ops without a rule: the launches of eager mode, recorded on placeholder memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.utils import _pytree as pytree

from torch_atalla.driver.dtypes import CODES, DTYPES
from torch_atalla.driver.dtypes import name as dtype_name
from torch_atalla.loadable.errors import NotNativeError

from ..program.ir import AnyOperand, BufferKind, Immediate, Launch, Operand
from ..program.kernels import contract, replace_parameters, unpack
from ..program.layouts import are_numbers, layout_of, span
from ..program.sizes import is_symbolic
from .context import LoweringContext, Value

NO_KERNEL = "no native kernel"
# Whose ops launch the same for the same arguments. What a user's own op does on the host, nobody knows.
_KNOWN = ("aten", "prims")


def lower_recorded(ctx: LoweringContext, node: torch.fx.Node, arguments: dict[str, Any]) -> Any:
    """Raises NotNativeError if a size is dynamic, or if eager mode does more than launch kernels."""
    target: Any = node.target
    if target._schema.is_mutable or target.namespace not in _KNOWN:
        raise NotNativeError(NO_KERNEL)
    for leaf in pytree.tree_leaves(arguments):
        if is_symbolic(leaf) or isinstance(leaf, Value) and not are_numbers(*layout_of(leaf.meta)):
            raise NotNativeError("no rule for dynamic sizes")
        if isinstance(leaf, torch.Generator):
            raise NotNativeError("draws from a generator of its own")
        if isinstance(leaf, Value) and leaf.dtype not in CODES:
            raise NotNativeError(f"dtype {dtype_name(leaf.dtype)} not taken")
    recording = _Recording(ctx)
    with unset_fake_temporarily():
        results = recording.run(node, arguments)
    return pytree.tree_map_only(Value, _seen_here, results)


def _seen_here(value: Value) -> Value:
    """With a meta tensor of the mode in which the program is lowered."""
    meta = value.meta
    whole = torch.empty(0, dtype=meta.dtype, device="meta")
    return value.view(whole.as_strided(meta.shape, meta.stride(), meta.storage_offset()))


class _Recording:
    """Maps the addresses of one recording to the program's buffers."""

    def __init__(self, ctx: LoweringContext):
        self.ctx = ctx
        self.blocks: list[tuple[int, int, bytes | None]] = []  # address, bytes and what the host wrote there
        self.places: dict[int, tuple[int, int]] = {}  # address of a block -> buffer, and the offset in it
        self.arguments: set[int] = set()  # buffers
        self.written: set[int] = set()  # buffers

    def run(self, node: torch.fx.Node, arguments: dict[str, Any]) -> Any:
        from torch_atalla.driver.extension import _C

        target: Any = node.target
        try:
            # Without gradients and autocast, as programs are.
            with torch.no_grad(), torch._C._DisableAutocast():
                result, launches, self.blocks, drawn = _C.record_launches(lambda: self.call(target, arguments))
        except Exception as error:
            native = torch._C._dispatch_has_kernel_for_dispatch_key(target.name(), "PrivateUse1")
            text = str(error).strip().splitlines()
            raise NotNativeError(text[0] if native and text else NO_KERNEL) from None
        for launch in launches:
            self.add(*launch)
        self.ctx.program.random_positions += drawn
        metas = node.meta["val"]
        if isinstance(result, (tuple, list)):
            return tuple(self.value(*pair) for pair in zip(result, metas, strict=True))
        return self.value(result, metas)

    def call(self, target: Any, arguments: dict[str, Any]) -> Any:
        args, kwargs = [], {}
        for argument in target._schema.arguments:
            value = pytree.tree_map(self.placeholder, arguments[argument.name])
            if argument.name == "device":
                value = torch.device("atalla")
            if argument.kwarg_only:
                kwargs[argument.name] = value
            else:
                args.append(value)
        return target(*args, **kwargs)

    def placeholder(self, value: Any) -> Any:
        if not isinstance(value, Value):
            return value
        operand = value.operand()
        tensor = torch.empty_strided(operand.sizes, operand.strides, dtype=operand.dtype, device="atalla")
        self.places[tensor.data_ptr()] = operand.buffer, operand.offset
        self.arguments.add(operand.buffer)
        self.written.add(operand.buffer)
        return tensor

    def place(self, address: int) -> tuple[int, int]:
        """The buffer of an address, and the offset in it."""
        block = next((b for b in self.blocks if b[0] <= address < b[0] + b[1]), None)
        if block is None:
            raise NotNativeError("eager mode uses memory of its own")
        begin = block[0]
        if begin not in self.places:
            self.places[begin] = self.new_buffer(*block), 0
        buffer, offset = self.places[begin]
        return buffer, offset + address - begin

    def new_buffer(self, begin: int, nbytes: int, content: bytes | None) -> int:
        if content is None:
            return self.ctx.new_buffer(BufferKind.TEMPORARY, self.ctx.node, nbytes).index
        tensor = torch.frombuffer(bytearray(content), dtype=torch.uint8)
        buffer = self.ctx.new_buffer(BufferKind.CONSTANT, self.ctx.node, nbytes, tensor).index
        self.written.add(buffer)
        return buffer

    def add(
        self, kernel: int, n_outputs: int, compute: int, operands: list, iparams: Sequence, fparams: Sequence
    ) -> None:
        seen = [self.operand(operand, written=i < n_outputs) for i, operand in enumerate(operands)]
        name = _kernel_names()[kernel]
        outputs, inputs = seen[:n_outputs], seen[n_outputs:]
        inputs += [None] * (len(contract(name).inputs) - len(inputs))  # absent ones at the end
        written = {operand.buffer for operand in outputs if isinstance(operand, Operand)}
        for i, operand in enumerate(inputs):
            if not isinstance(operand, Operand) or 0 in operand.sizes:
                continue
            if operand.buffer not in self.written:
                raise NotNativeError("eager mode reads memory that it did not write")
            if operand.buffer in written:
                inputs[i] = self.aside(operand)
        for buffer in written:
            if buffer in self.arguments or self.ctx.program.buffers[buffer].kind is BufferKind.CONSTANT:
                raise NotNativeError("eager mode writes to its arguments")
        self.written |= written
        if "random" in contract(name).traits:
            dtype = DTYPES[compute]
            offset = unpack(name, dtype, "offset", iparams, fparams) + self.ctx.program.random_positions
            iparams, fparams = replace_parameters(name, dtype, iparams, fparams, seed=0, offset=offset)
        self.launch(name, outputs, inputs, compute, _given(iparams), _given(fparams))

    def launch(
        self, kernel: str, outputs: list, inputs: list, compute: int, iparams: tuple = (), fparams: tuple = ()
    ) -> None:
        launch = Launch(kernel, tuple(outputs), tuple(inputs), DTYPES[compute], iparams, fparams, self.ctx.node)
        self.ctx.program.instructions.append(launch)

    def aside(self, operand: Operand) -> Operand:
        """A copy of what a launch reads and writes: eager mode's kernels may work in place, the plan's may not."""
        nbytes = span(operand.sizes, operand.strides) * operand.dtype.itemsize
        buffer = self.ctx.new_buffer(BufferKind.TEMPORARY, self.ctx.node, nbytes).index
        copy = replace(operand, buffer=buffer, offset=0)
        self.launch("copy", [copy], [operand], CODES[operand.dtype])
        return copy

    def forwards(self, address: int, sizes: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype) -> Operand:
        """A copy of what eager mode sees backwards, such as the turned weight of a convolution's gradient: operands of
        a program have no negative strides."""
        backwards = [d for d, stride in enumerate(strides) if stride < 0]
        address += sum((sizes[d] - 1) * strides[d] for d in backwards) * dtype.itemsize
        source = Operand(*self.place(address), sizes, tuple(map(abs, strides)), dtype)
        if source.buffer not in self.written:
            raise NotNativeError("eager mode reads memory that it did not write")
        out = torch.empty_like(torch.empty_strided(sizes, source.strides, dtype=dtype, device="meta"))
        buffer = self.ctx.new_buffer(BufferKind.TEMPORARY, self.ctx.node, out.numel() * dtype.itemsize).index
        copy = Operand(buffer, 0, sizes, out.stride(), dtype)
        self.launch("flip", [copy], [source], CODES[dtype], (sum(1 << d for d in backwards),))
        self.written.add(buffer)
        return copy

    def operand(self, recorded: tuple | None, *, written: bool = False) -> AnyOperand:
        if recorded is None:
            return None
        *where, code = recorded
        dtype = DTYPES[code]
        if len(where) == 1:
            return Immediate(torch.frombuffer(bytearray(where[0]), dtype=dtype, count=1).item(), dtype)
        address, sizes, strides = where
        if 0 in sizes:
            return self.ctx.empty(sizes, dtype).operand()
        if any(stride < 0 for stride in strides):
            if written:
                raise NotNativeError("eager mode goes through memory backwards")
            return self.forwards(address, tuple(sizes), tuple(strides), dtype)
        return Operand(*self.place(address), tuple(sizes), tuple(strides), dtype)

    def value(self, tensor: torch.Tensor | None, meta: torch.Tensor) -> Value | None:
        if tensor is None:
            return None
        if not isinstance(tensor, torch.Tensor):
            raise NotNativeError("a result that is no tensor")
        if (tensor.shape, tensor.dtype) != (meta.shape, meta.dtype):
            raise NotNativeError(f"a result has the sizes {list(tensor.shape)} on the chip")
        if tensor.numel() == 0:
            return self.ctx.empty(tensor.shape, tensor.dtype)
        buffer, offset = self.place(tensor.data_ptr())
        if buffer not in self.written:
            raise NotNativeError("eager mode leaves a result as memory was")
        whole = torch.empty(0, dtype=tensor.dtype, device="meta")
        seen = whole.as_strided(tensor.shape, tensor.stride(), offset // tensor.dtype.itemsize)
        return Value(buffer, seen)


def _given(parameters: Sequence) -> tuple:
    """Without those at the end that are 0, as absent ones are."""
    count = len(parameters)
    while count and repr(parameters[count - 1]) in ("0", "0.0"):
        count -= 1
    return tuple(parameters[:count])


@lru_cache(maxsize=1)
def _kernel_names() -> list[str]:
    from torch_atalla.driver.extension import _C

    return _C.kernels()
