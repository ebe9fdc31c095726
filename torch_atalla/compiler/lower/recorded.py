# SPDX-License-Identifier: BSD-3-Clause
"""The launches of a node: those of eager mode, recorded on placeholder memory."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
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
from ..program.sizes import bounded_bytes, is_symbolic, not_negative, same_sizes, to_size, to_symint
from .context import LoweringContext
from .recorded_sizes import record_for_all_sizes
from .recording import NO_KERNEL, Block, Number, Place, Recorded, Trace, record
from .trimmed import in_exported_layout, without_copies, without_unread_results
from .value import Value

ACTIVATION_KEY = "atalla_activation"  # in a node's meta: what fuse_epilogue lets the product apply

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
    key = _key(target, arguments)
    if key not in ctx.traces:
        dynamic = any(is_symbolic(leaf) or isinstance(leaf, Value) and not _is_static(leaf) for leaf in leaves)
        with unset_fake_temporarily():
            trace = record_for_all_sizes(node, arguments) if dynamic else record(target, arguments)
            ctx.traces[key] = without_copies(trace)
    trace = without_unread_results(ctx.traces[key], node)
    if ACTIVATION_KEY in node.meta:
        trace = _with_activation(trace, node.meta[ACTIVATION_KEY])
    result: Any = node.meta["val"]
    if isinstance(result, torch.Tensor):
        trace = in_exported_layout(trace, result)
    if isinstance(result, torch.Tensor) and any(isinstance(n, int) and n == 0 for n in result.shape):
        return ctx.result_of(node)  # in which no launch says how its sizes follow from those of the inputs
    values = [leaf for leaf in leaves if isinstance(leaf, Value) and 0 not in leaf.operand().sizes]
    return _Lowering(ctx, trace, values).run(node.meta["val"])


def _key(target: Any, arguments: dict[str, Any]) -> Hashable:
    """What eager mode's launches depend on, within one graph."""
    leaves, spec = pytree.tree_flatten(arguments)
    return str(target), str(spec), tuple(map(_leaf_key, leaves))


def _leaf_key(leaf: Any) -> Hashable:
    if isinstance(leaf, Value):
        operand = leaf.operand()
        return operand.sizes, operand.strides, operand.dtype
    return type(leaf), to_size(leaf) if isinstance(leaf, torch.SymInt) else repr(leaf)


def _with_activation(trace: Trace, activation: str) -> Trace:
    """The product's last launch applies the activation that fuse_epilogue gave to the node."""
    if not trace.launches:  # the result is empty
        return trace
    *before, last = trace.launches
    if last.kernel != "gemm":
        raise NotNativeError(f"a product that ends with the launch of {last.kernel}, expected gemm")
    code = contract("gemm").parameters["activation"].values.index(activation)
    iparams, fparams = replace_parameters("gemm", last.compute, last.iparams, last.fparams, activation=code)
    return trace._replace(launches=[*before, last._replace(iparams=iparams, fparams=fparams)])


def _is_static(value: Value) -> bool:
    return are_numbers(*layout_of(value.meta))


def _backwards(where: Place) -> list[int]:
    """The dimensions whose elements follow each other backwards in memory."""
    return [d for d, stride in enumerate(where.strides) if stride < 0]


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
            return tuple(self.value(*pair, k) for k, pair in enumerate(zip(results, metas, strict=True)))
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
        outputs: list[Any] = [self.written_forwards(operand) for operand in recorded.outputs]
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
        for place, forwards in zip(recorded.outputs, outputs):
            if place is not None and _backwards(place):
                self.flip(self.turned(place), forwards, _backwards(place))

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
        source = self.turned(where)
        if source.buffer not in self.written:
            raise NotNativeError("eager mode reads memory that it did not write")
        copy = self.ctx.new_value(self.meta(source.sizes, None, source.dtype)).operand()
        self.flip(copy, source, _backwards(where))
        self.written.add(copy.buffer)
        return copy

    def turned(self, where: Place) -> Operand:
        """The same elements in the order of memory."""
        first = sum((where.sizes[d] - 1) * where.strides[d] for d in _backwards(where)) * where.dtype.itemsize
        buffer, offset = self.place(where)
        strides = tuple(-stride if stride < 0 else stride for stride in where.strides)
        return Operand(buffer, offset + first, where.sizes, strides, where.dtype)

    def flip(self, out: Operand, source: Operand, dims: Sequence[int]) -> None:
        self.launch("flip", [out], [source], source.dtype, (sum(1 << d for d in dims),))

    def written_forwards(self, where: Place | None) -> AnyOperand:
        """Where a launch writes; what eager mode writes backwards is turned after the launch."""
        if where is None or not _backwards(where):
            return self.operand(where)
        self.written.add(self.place(where)[0])
        return self.ctx.new_value(self.meta(where.sizes, None, where.dtype)).operand()

    def operand(self, recorded: Place | Number | None) -> AnyOperand:
        if recorded is None:
            return None
        if isinstance(recorded, Number):
            return Immediate(recorded.value, recorded.dtype)
        if recorded.block is None:
            return self.ctx.new_value(self.meta(recorded.sizes, None, recorded.dtype)).operand()
        if _backwards(recorded):
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

    def value(self, where: Place | None, meta: torch.Tensor, number: int = 0) -> Value | None:
        """Statistics for gradients, results behind the first, may have another dtype than upstream's meta functions
        tell."""
        if where is None:
            return None
        if len(where.sizes) > ATALLA_MAX_DIMS:
            raise NotNativeError(f"{len(where.sizes)} dimensions; a file takes at most {ATALLA_MAX_DIMS}")
        if not same_sizes(where.sizes, list(map(to_size, meta.shape))) or (where.dtype != meta.dtype and number == 0):
            raise NotNativeError(f"a result has the sizes {[str(size) for size in where.sizes]} on the chip")
        if where.block is None:
            return self.ctx.new_value(self.meta(where.sizes, None, where.dtype))
        buffer, offset = self.place(where)
        if buffer not in self.written:
            raise NotNativeError("eager mode leaves a result as memory was")
        return Value(buffer, self.meta(where.sizes, where.strides, where.dtype, offset // where.dtype.itemsize))
