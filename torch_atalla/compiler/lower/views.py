# SPDX-License-Identifier: BSD-3-Clause
"""Views: other sizes and strides on the same buffer, no launch. Upstream's ops compute them, on meta tensors."""

from __future__ import annotations

import operator
from typing import Any

import torch

from torch_atalla.driver.dtypes import ALL
from torch_atalla.loadable.errors import ExportError, NotNativeError

from ..program.call_arguments import as_call
from ..program.layouts import layout_of, span
from ..program.sizes import to_size
from ..program.support import qualified_name
from .context import LoweringContext
from .registry import lowers
from .value import Value

aten = torch.ops.aten


def is_view(op: torch._ops.OpOverload) -> bool:
    """Conjugates and negatives are views upstream by a bit that no operand has."""
    return op.is_view and op not in (aten._conj.default, aten._neg_view.default)


# Views that look at memory, whatever the sizes and strides of their input are; and their copies.
MEMORY_VIEWS = (aten.as_strided.default,)
STORAGE_VIEWS = (*MEMORY_VIEWS, aten.as_strided_copy.default, aten.as_strided_scatter.default)


def seen_in_memory(ctx: LoweringContext, node: torch.fx.Node, arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments with a storage offset that counts from the beginning of the buffer. Raises ExportError where the
    buffer is not the memory that was exported."""
    given: Any = node.args[0]
    source: Value = next(value for value in arguments.values() if isinstance(value, Value))
    exported = given.meta["val"]
    offset, begin = arguments["storage_offset"], to_size(source.meta.storage_offset())
    begin = begin if offset is None else begin + to_size(offset) - to_size(exported.storage_offset())
    sizes, strides = (tuple(map(to_size, arguments[name])) for name in ("size", "stride"))
    nbytes = ctx.program.buffers[source.buffer].nbytes
    end = (begin + span(sizes, strides)) * source.dtype.itemsize
    if layout_of(exported) != layout_of(source.meta) or int(begin) < 0 or int(end) > int(nbytes):
        raise ExportError(
            f"node {node.name} ({qualified_name(node.target)}) looks at bytes {begin * source.dtype.itemsize} to {end} "
            f"of memory of which the program has {nbytes}, in the layout {list(layout_of(source.meta)[1])}, exported "
            f"with {list(layout_of(exported)[1])}; expected a view of its input's own elements, and no expanded input"
        )
    return arguments | {"storage_offset": begin}


def lower_view(ctx: LoweringContext, node: torch.fx.Node, arguments: dict[str, Any]) -> Value | tuple[Value, ...]:
    source: Value = next(value for value in arguments.values() if isinstance(value, Value))
    result = _apply(node, arguments)
    if isinstance(result, (tuple, list)):
        return tuple(source.view(item) for item in result)
    return source.view(result)


def _apply(node: torch.fx.Node, arguments: dict[str, Any]) -> Any:
    target: Any = node.target
    for value in arguments.values():
        if isinstance(value, torch.SymInt):
            to_size(value)  # raises NotNativeError for a position that depends on data
    given = {name: value.meta if isinstance(value, Value) else value for name, value in arguments.items()}
    positional, named = as_call(target, given)
    return target(*positional, **named)


@lowers("view.default", "reshape.default", "_unsafe_view.default", dtypes=ALL, operands=ALL)
def view(ctx: LoweringContext, node: torch.fx.Node, *, self: Value, **_: Any) -> Value:
    # The sizes may hold a -1: those of the result do not.
    return ctx.reshape(self, tuple(node.meta["val"].shape))


def lower_getitem(ctx: LoweringContext, node: torch.fx.Node, values: dict[torch.fx.Node, Any]) -> Any:
    if node.target is not operator.getitem:
        raise NotNativeError("no native kernel")
    source: Any
    index: Any
    source, index = node.args
    result = values[source][index]
    if result is None:
        raise NotNativeError(f"result {index} of {source.target} is not computed by the chip")
    return result
