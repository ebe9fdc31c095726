# SPDX-License-Identifier: BSD-3-Clause
"""Arguments that share memory with one that a graph writes.

AOTAutograd compiles a graph for the arguments that share memory in the trace. Dynamo has no guard for that unless sizes
are dynamic, so a call with others would read what it should not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from torch_atalla.driver.extension import _C

from .debug import hints

Overlaps = tuple[tuple[int, int], ...]  # the arguments that share memory, and where each begins


def overlaps(args: Sequence[Any], written: Sequence[int] | None) -> Overlaps:
    """Those that share memory with an argument in `written`, or with any other one if that is None."""
    storages: dict[int, list[int]] = {}
    for place, arg in enumerate(args):
        if isinstance(arg, torch.Tensor):
            storages.setdefault(arg.untyped_storage()._cdata, []).append(place)
    found = set()
    for places in storages.values():
        for k, first in enumerate(places[:-1]):
            for second in places[k + 1 :]:
                if written is not None and first not in written and second not in written:
                    continue
                (begin, end), (other_begin, other_end) = _extent(args[first]), _extent(args[second])
                if max(begin, other_begin) < min(end, other_end):
                    found |= {(first, begin), (second, other_begin)}
    return tuple(sorted(found))


def _extent(tensor: torch.Tensor) -> tuple[int, int]:
    """The first byte of the storage that the tensor reaches, and that behind the last one. Dynamic sizes have their
    example values."""
    offset, *numbers = map(_number, (tensor.storage_offset(), *tensor.shape, *tensor.stride()))
    sizes, strides = numbers[: tensor.dim()], numbers[tensor.dim() :]
    begin = offset * tensor.itemsize
    if 0 in sizes:
        return begin, begin
    return begin, begin + (sum((n - 1) * step for n, step in zip(sizes, strides)) + 1) * tensor.itemsize


def _number(number: int | torch.SymInt) -> int:
    return number if isinstance(number, int) else number.node.hint


def checked(
    function: Callable[..., Any],
    graph: torch.fx.GraphModule,
    examples: Sequence[Any],
    metadata: Any,
) -> Callable[..., Any]:
    """The compiled function of a graph. A call whose arguments share other memory than the examples runs the graph as
    in eager mode. metadata: AOTAutograd's, of the graph."""
    written = [place for place, info in enumerate(metadata.input_info) if info.mutates_data]
    if not written:
        return function
    # Of arguments that share memory, AOTAutograd takes one, so that places in `written` are others.
    known = written if not overlaps(examples, None) else None
    expected = overlaps(examples, known)

    def call(*args: Any) -> Any:
        storages = _C.storages(args)
        found = overlaps(args, known) if len(set(storages)) < len(storages) else ()
        if found == expected:
            return function(*args)
        hints.info("a graph runs eagerly: its arguments share other memory (%s) than in its trace", found)
        return graph(*args)

    return call
