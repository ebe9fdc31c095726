# SPDX-License-Identifier: BSD-3-Clause
"""Arguments that share memory with one that a graph writes.

AOTAutograd compiles a graph for the arguments that share memory in the trace. Dynamo has no guard for that unless sizes
are dynamic, so a call with others would read what it should not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch

from torch_atalla.compiler.program.layouts import span
from torch_atalla.driver.extension import _C

from .debug import hints

Overlaps = tuple[tuple[int, int], ...]  # the arguments that share memory, and where each begins
_UNKNOWN = 1 << 32  # for a size without an example: reaches all that lies behind


def overlaps(args: Sequence[Any], written: Collection[int] | None) -> Overlaps:
    """Those that share memory with an argument in `written`, or with any other one if that is None."""
    found: list[tuple[int, int]] = []
    for places in _C.shared_storages(tuple(args)):
        run: list[tuple[int, int]] = []  # of arguments, each of which begins before the end of those before it
        end = 0
        for begin, stop, place in sorted((*_extent(args[place]), place) for place in places):
            if begin == stop:
                continue
            if begin >= end:
                found += _shared(run, written)
                run = []
            run.append((place, begin))
            end = max(end, stop)
        found += _shared(run, written)
    return tuple(sorted(found))


def _shared(run: list[tuple[int, int]], written: Collection[int] | None) -> list[tuple[int, int]]:
    """The run, if it has several arguments, and one of them is written."""
    matters = len(run) > 1 and (written is None or any(place in written for place, _ in run))
    return run if matters else []


def _extent(tensor: torch.Tensor) -> tuple[int, int]:
    """The first byte of the storage that the tensor reaches, and that behind the last one. Dynamic sizes have their
    example values."""
    offset, *numbers = map(_number, (tensor.storage_offset(), *tensor.shape, *tensor.stride()))
    sizes, strides = tuple(numbers[: tensor.dim()]), tuple(numbers[tensor.dim() :])
    begin = offset * tensor.itemsize
    return begin, begin + span(sizes, strides) * tensor.itemsize


def _number(number: int | torch.SymInt) -> int:
    if isinstance(number, int):
        return number
    return _UNKNOWN if number.node.hint is None else number.node.hint


def checked(
    function: Callable[..., Any],
    graph: torch.fx.GraphModule,
    examples: Sequence[Any],
    metadata: Any,
) -> Callable[..., Any]:
    """The compiled function of a graph. A call whose arguments share other memory than the examples runs the graph as
    in eager mode. metadata: AOTAutograd's, of the graph."""
    written = {place for place, info in enumerate(metadata.input_info) if info.mutates_data}
    if not written:
        return function
    # Of arguments that share memory, AOTAutograd takes one, so that places in `written` are others.
    known = written if not overlaps(examples, None) else None
    expected = overlaps(examples, known)

    def call(*args: Any) -> Any:
        found = overlaps(args, known)
        if found == expected:
            return function(*args)
        hints.info("a graph runs eagerly: its arguments share other memory (%s) than in its trace", found)
        return graph(*args)

    return call
