# SPDX-License-Identifier: BSD-3-Clause
"""What lowering works with: new values, launches."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import torch

from torch_atalla.driver.dtypes import CODES
from torch_atalla.driver.dtypes import name as dtype_name
from torch_atalla.loadable.errors import NotNativeError

from ..program import kernels
from ..program.ir import Buffer, BufferKind, Immediate, Launch, LinearProgram
from ..program.layouts import dense_meta, is_contiguous, is_dense, layout_of, merged, span
from ..program.sizes import is_symbolic, not_negative, to_bytes, to_size
from .recording import Trace
from .value import Value


class LoweringContext:
    """Collects buffers and launches of the node under way."""

    def __init__(
        self, program: LinearProgram, *, keep_strides: bool = False, traces: dict[Hashable, Trace] | None = None
    ) -> None:
        """traces: recordings of this graph's nodes, to which those that are made are added."""
        self.program = program
        self.traces = {} if traces is None else traces
        self.keep_strides = keep_strides  # every value gets the strides that it has in the exported program
        self.node = ""

    def new_buffer(self, kind: BufferKind, name: str, nbytes: int, tensor: torch.Tensor | None = None) -> Buffer:
        buffer = Buffer(len(self.program.buffers), kind, name, nbytes, tensor)
        self.program.buffers.append(buffer)
        return buffer

    def new_value(self, meta: torch.Tensor, kind: BufferKind = BufferKind.TEMPORARY, name: str = "") -> Value:
        """A value over a buffer of its own; `meta` is dense, at storage offset 0."""
        nbytes = to_bytes(meta.numel() * meta.dtype.itemsize)
        return Value(self.new_buffer(kind, name or self.node, nbytes).index, meta)

    def new_strided_value(self, meta: torch.Tensor, kind: BufferKind = BufferKind.TEMPORARY, name: str = "") -> Value:
        """As new_value; `meta` may have gaps and overlaps."""
        if is_dense(meta):
            return self.new_value(meta, kind, name)
        sizes, strides = layout_of(meta)
        nbytes = not_negative(span(sizes, strides) * meta.dtype.itemsize, sizes)
        return Value(self.new_buffer(kind, name or self.node, nbytes).index, meta)

    def empty(self, sizes: tuple[int, ...] | torch.Size, dtype: torch.dtype) -> Value:
        return self.new_value(torch.empty(tuple(sizes), dtype=dtype, device="meta"))

    def result_of(self, node: torch.fx.Node) -> Value:
        """A new value of the sizes, strides and dtype that upstream's meta function gives the node."""
        return self.new_value(dense_meta(node.meta["val"]))

    def launch(
        self,
        kernel: str,
        outputs: Sequence[Value | None],
        inputs: Sequence[Value | Immediate | None],
        compute_dtype: torch.dtype,
        /,
        **parameters: Any,
    ) -> None:
        """Adds a launch, unless its results have no elements, as eager mode. A parameter that is None is not given."""
        iparams, fparams = kernels.pack(kernel, compute_dtype, parameters)
        for value in (*outputs, *inputs):
            if value is not None and value.dtype not in CODES:
                raise NotNativeError(f"dtype {dtype_name(value.dtype)} not taken")
            if isinstance(value, Value) and value.ndim > 12:
                raise NotNativeError(f"{value.ndim} dimensions; the chip takes at most 12")
        results = [value for value in outputs if value is not None]
        if results and all(any(type(size) is int and size == 0 for size in value.shape) for value in results):
            return
        self.program.instructions.append(
            Launch(
                kernel,
                tuple(None if value is None else value.operand() for value in outputs),
                tuple(value.operand() if isinstance(value, Value) else value for value in inputs),
                compute_dtype,
                tuple(to_size(param) for param in iparams),
                tuple(_as_float(param) for param in fparams),
                self.node,
            )
        )

    def copy(self, out: Value, source: Value) -> None:
        """Writes `source`, expanded and converted, into `out`."""
        self.launch("copy", [out], [source.expand(out.shape)], out.dtype)

    def fill(self, out: Value, value: bool | int | float) -> None:
        self.launch("fill", [out], [Immediate(value, out.dtype)], out.dtype)

    def with_strides(self, value: Value, meta: torch.Tensor) -> Value:
        """The value in the layout of `meta`, which has no gaps: as it is, or copied."""
        (sizes, wanted), found = layout_of(meta), value.operand().strides
        if wanted == found:
            return value
        moved = [type(size) is not int or size > 1 for size, a, b in zip(sizes, wanted, found) if a != b]
        if not any(moved) or any(type(size) is int and size == 0 for size in sizes):
            return value.view(value.meta.as_strided(meta.shape, meta.stride(), value.meta.storage_offset()))
        out = self.new_value(dense_meta(meta))
        self.copy(out, value)
        return out

    def contiguous(self, value: Value) -> Value:
        if is_contiguous(value.meta):
            return value
        out = self.empty(value.shape, value.dtype)
        self.copy(out, value)
        return out

    def reshape(self, value: Value, sizes: tuple[int, ...]) -> Value:
        """A view where strides allow one, else a copy. (Of tensors with symbolic sizes upstream's meta function gives a
        view in other cases too, which would have the elements in another order.)"""
        try:
            seen = value.meta.view(sizes)
        except (RuntimeError, ValueError):  # the latter of symbolic sizes
            seen = None
        if seen is None or merged(*layout_of(seen)) != merged(*layout_of(value.meta)):
            value = self.contiguous(value)
            seen = value.meta.view(sizes)
        return value.view(seen)

    def cast(self, value: Value, dtype: torch.dtype) -> Value:
        if value.dtype == dtype:
            return value
        out = self.new_value(dense_meta(value.meta.to(dtype)))
        self.copy(out, value)
        return out


def _as_float(value: Any) -> float:
    if is_symbolic(value):
        raise NotNativeError("a floating-point parameter depends on a dynamic size")
    return float(value)
