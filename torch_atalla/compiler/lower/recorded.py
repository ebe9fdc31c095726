# SPDX-License-Identifier: BSD-3-Clause
"""Ops without a rule: the launches of eager mode, recorded on placeholder memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.utils import _pytree as pytree

from torch_atalla.driver.c_abi import ATALLA_MAX_DIMS
from torch_atalla.driver.dtypes import CODES
from torch_atalla.driver.dtypes import name as dtype_name
from torch_atalla.loadable.errors import NotNativeError

from ..program.ir import AnyOperand, BufferKind, Immediate, Launch, Operand
from ..program.kernels import contract, replace_parameters, unpack
from ..program.layouts import are_numbers, layout_of, span
from ..program.sizes import bounded_bytes, is_symbolic, not_negative, to_size, to_symint
from .context import LoweringContext, Value
from .recorded_sizes import record_for_all_sizes
from .recording import NO_KERNEL, Block, Number, Place, Recorded, Trace, record

# Whose ops launch the same for the same arguments. What a user's own op does on the host, nobody knows.
_KNOWN = ("aten", "prims", "torchvision", "atalla")


def lower_recorded(ctx: LoweringContext, node: torch.fx.Node, arguments: dict[str, Any]) -> Any:
    """Raises NotNativeError if eager mode does more than launch kernels, or launches differ between the sizes that a
    dynamic dimension may have."""
    target: Any = node.target
    if target._schema.is_mutable or target.namespace not in _KNOWN:
        raise NotNativeError(NO_KERNEL)
    leaves = pytree.tree_leaves(arguments)
    for leaf in leaves:
        if isinstance(leaf, torch.Generator):
            raise NotNativeError("draws from a generator of its own")
        if isinstance(leaf, Value) and leaf.dtype not in CODES:
            raise NotNativeError(f"dtype {dtype_name(leaf.dtype)} not taken")
    dynamic = any(is_symbolic(leaf) or isinstance(leaf, Value) and not _is_static(leaf) for leaf in leaves)
    with unset_fake_temporarily():
        trace = record_for_all_sizes(node, arguments) if dynamic else record(target, arguments)
    result: Any = node.meta["val"]
    if isinstance(result, torch.Tensor) and any(isinstance(n, int) and n == 0 for n in result.shape):
        return ctx.result_of(node)  # in which no launch says how its sizes follow from those of the inputs
    values = [leaf for leaf in leaves if isinstance(leaf, Value) and 0 not in leaf.operand().sizes]
    return _Lowering(ctx, trace, values).run(node.meta["val"])


def _is_static(value: Value) -> bool:
    return are_numbers(*layout_of(value.meta))


class _Lowering:
    """Maps the blocks of one recording to the program's buffers."""

    def __init__(self, ctx: LoweringContext, trace: Trace, values: list[Value]):
        self.ctx = ctx
        self.trace = trace
        operands = [value.operand() for value in values]
        self.arguments = {operand.buffer for operand in operands}
        self.written = set(self.arguments)  # buffers
        self.places = {  # block -> buffer, and the offset in it
            block: (operand.buffer, operand.offset) for block, operand in zip(trace.arguments, operands, strict=True)
        }

    def run(self, metas: Any) -> Any:
        for launch in self.trace.launches:
            self.add(launch)
        self.ctx.program.random_positions += self.trace.drawn
        results = self.trace.results
        if isinstance(metas, (tuple, list)):
            return tuple(self.value(*pair) for pair in zip(results, metas, strict=True))
        return self.value(results, metas)

    def place(self, where: Place) -> tuple[int, int]:
        """The buffer of a tensor, and the offset in it."""
        assert where.block is not None
        if where.block not in self.places:
            self.places[where.block] = self.new_buffer(where.block), 0
        buffer, offset = self.places[where.block]
        return buffer, offset + where.offset

    def new_buffer(self, block: Block) -> int:
        nbytes, content = self.trace.blocks[block]
        if content is None:
            return self.ctx.new_buffer(BufferKind.TEMPORARY, self.ctx.node, bounded_bytes(nbytes)).index
        tensor = torch.frombuffer(bytearray(content), dtype=torch.uint8)
        buffer = self.ctx.new_buffer(BufferKind.CONSTANT, self.ctx.node, nbytes, tensor).index
        self.written.add(buffer)
        return buffer

    def add(self, recorded: Recorded) -> None:
        name = recorded.kernel
        outputs: list[Any] = [self.operand(operand, written=True) for operand in recorded.outputs]
        inputs = [self.operand(operand) for operand in recorded.inputs]
        inputs += [None] * (len(contract(name).inputs) - len(inputs))  # absent ones at the end
        written = {operand.buffer for operand in outputs if operand is not None}
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
        iparams, fparams = recorded.iparams, recorded.fparams
        if "random" in contract(name).traits:
            dtype = recorded.compute
            offset = unpack(name, dtype, "offset", iparams, fparams) + self.ctx.program.random_positions
            iparams, fparams = replace_parameters(name, dtype, iparams, fparams, seed=0, offset=offset)
        self.launch(name, outputs, inputs, recorded.compute, iparams, fparams)

    def launch(
        self,
        kernel: str,
        outputs: list,
        inputs: list,
        compute: torch.dtype,
        iparams: tuple = (),
        fparams: tuple = (),
    ) -> None:
        launch = Launch(kernel, tuple(outputs), tuple(inputs), compute, iparams, fparams, self.ctx.node)
        self.ctx.program.instructions.append(launch)

    def aside(self, operand: Operand) -> Operand:
        """A copy of what a launch reads and writes: eager mode's kernels may work in place, the plan's may not."""
        nbytes = bounded_bytes(span(operand.sizes, operand.strides) * operand.dtype.itemsize)
        nbytes = not_negative(nbytes, operand.sizes)
        buffer = self.ctx.new_buffer(BufferKind.TEMPORARY, self.ctx.node, nbytes).index
        copy = replace(operand, buffer=buffer, offset=0)
        self.launch("copy", [copy], [operand], operand.dtype)
        return copy

    def forwards(self, where: Place) -> Operand:
        """A copy of what eager mode sees backwards, such as the turned weight of a convolution's gradient: operands of
        a program have no negative strides."""
        backwards = [d for d, stride in enumerate(where.strides) if stride < 0]
        first = sum((where.sizes[d] - 1) * where.strides[d] for d in backwards) * where.dtype.itemsize
        strides = tuple(-stride if stride < 0 else stride for stride in where.strides)
        buffer, offset = self.place(where)
        source = Operand(buffer, offset + first, where.sizes, strides, where.dtype)
        if source.buffer not in self.written:
            raise NotNativeError("eager mode reads memory that it did not write")
        out = self.ctx.new_value(self.meta(source.sizes, None, source.dtype))
        copy = out.operand()
        self.launch("flip", [copy], [source], source.dtype, (sum(1 << d for d in backwards),))
        self.written.add(copy.buffer)
        return copy

    def operand(self, recorded: Place | Number | None, *, written: bool = False) -> AnyOperand:
        if recorded is None:
            return None
        if isinstance(recorded, Number):
            return Immediate(recorded.value, recorded.dtype)
        if recorded.block is None:
            return self.ctx.empty(recorded.sizes, recorded.dtype).operand()
        if any(stride < 0 for stride in recorded.strides):
            if written:
                raise NotNativeError("eager mode goes through memory backwards")
            return self.forwards(recorded)
        return Operand(*self.place(recorded), recorded.sizes, recorded.strides, recorded.dtype)

    def meta(
        self, sizes: tuple[int, ...], strides: tuple[int, ...] | None, dtype: torch.dtype, offset: int = 0
    ) -> torch.Tensor:
        """A meta tensor of these sizes and strides, in the mode in which the program is lowered."""
        shape = [to_symint(size) for size in sizes]
        if strides is None:
            return torch.empty(shape, dtype=dtype, device="meta")
        whole = torch.empty(0, dtype=dtype, device="meta")
        return whole.as_strided(shape, [to_symint(stride) for stride in strides], to_symint(offset))

    def value(self, where: Place | None, meta: torch.Tensor) -> Value | None:
        if where is None:
            return None
        if len(where.sizes) > ATALLA_MAX_DIMS:
            raise NotNativeError(f"{len(where.sizes)} dimensions; a file takes at most {ATALLA_MAX_DIMS}")
        if (where.sizes, where.dtype) != (tuple(map(to_size, meta.shape)), meta.dtype):
            raise NotNativeError(f"a result has the sizes {[str(size) for size in where.sizes]} on the chip")
        if where.block is None:
            return self.ctx.empty(where.sizes, where.dtype)
        buffer, offset = self.place(where)
        if buffer not in self.written:
            raise NotNativeError("eager mode leaves a result as memory was")
        return Value(buffer, self.meta(where.sizes, where.strides, where.dtype, offset // where.dtype.itemsize))
