# SPDX-License-Identifier: BSD-3-Clause
"""A recording without the launches that a program has no need for: those for results that nobody reads, copies of
arguments that eager mode makes to work in place, and copies of results to the layout of the export."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch

from ..program.kernels import contract
from ..program.layouts import dense_meta, layout_of
from .recording import Block, Place, Recorded, Trace
from .registry import reads


def without_unread_results(trace: Trace, node: torch.fx.Node) -> Trace:
    """The trace, whose results are None where nobody reads them. A launch for those alone is left out, and optional
    outputs that nothing reads are absent."""
    results = trace.results
    if isinstance(results, tuple) and not isinstance(results, Place):
        results = tuple(place if reads(node, k) else None for k, place in enumerate(results))
    every, wanted = _blocks(trace.results), _blocks(results)
    unread, needed = every - wanted, wanted | set(trace.arguments)
    launches: list[Recorded] = []
    for launch in reversed(trace.launches):
        written, read = _blocks(launch.outputs), _blocks(launch.inputs)
        if written and written <= unread - needed:
            unread |= read  # for those before it, which may have worked for it alone
            continue
        optional = contract(launch.kernel).optional_outputs
        outputs = tuple(
            None if k in optional and place is not None and place.block not in needed else place
            for k, place in enumerate(launch.outputs)
        )
        needed |= read | _blocks(outputs)
        launches.append(launch._replace(outputs=outputs))
    return trace._replace(launches=launches[::-1], results=results)


def _blocks(places: Any) -> set[Block | None]:
    """Those of a place, or of several among which other things may be."""
    given = [places] if isinstance(places, Place) else places or ()
    return {place.block for place in given if isinstance(place, Place)}


def in_exported_layout(trace: Trace, meta: torch.Tensor) -> Trace:
    """What one launch computes element by element, or from the windows of an image, it writes in the order of the
    export: eager mode follows the order of its operands, which passes may have changed."""
    place = trace.results
    if not isinstance(place, Place) or place.block not in trace.blocks or place.offset != 0:
        return trace
    launches = [launch for launch in trace.launches if place.block in _blocks(launch.outputs) | _blocks(launch.inputs)]
    if len(launches) != 1 or launches[0].outputs != (place,) or place.block in _blocks(launches[0].inputs):
        return trace
    if not {"elementwise", "convolution"} & contract(launches[0].kernel).traits:
        return trace
    if trace.blocks[place.block][0] != prod(place.sizes) * place.dtype.itemsize:
        return trace
    written = place._replace(strides=layout_of(dense_meta(meta))[1])
    changed = launches[0]._replace(outputs=(written,))
    return trace._replace(
        launches=[changed if launch is launches[0] else launch for launch in trace.launches], results=written
    )


def without_copies(trace: Trace) -> Trace:
    """What works in place on a copy reads what was copied; a copy is left out if it is then overwritten unread."""
    return trace._replace(launches=_without_overwritten(_reading_sources(trace.launches)))


def _reading_sources(launches: Sequence[Recorded]) -> list[Recorded]:
    found: list[Recorded] = []
    copied: dict[Place, Place] = {}  # what a copy wrote -> what it read, as long as both are as they were
    for launch in launches:
        written = _blocks(launch.outputs)
        inputs = tuple(
            copied.get(place, place) if isinstance(place, Place) and place.block in written else place
            for place in launch.inputs
        )
        launch = launch._replace(inputs=inputs)
        found.append(launch)
        copied = {to: source for to, source in copied.items() if not {to.block, source.block} & written}
        if launch.kernel == "copy":
            (to,), (source,) = launch.outputs, launch.inputs
            if isinstance(source, Place) and to is not None and source.block is not None:
                if source.dtype == to.dtype and source.sizes == to.sizes and source.block not in written:
                    copied[to] = source
    return found


def _without_overwritten(launches: Sequence[Recorded]) -> list[Recorded]:
    found: list[Recorded] = []
    overwritten: set[Place] = set()  # by later launches, before anything reads it
    for launch in reversed(launches):
        if launch.kernel == "copy" and overwritten.issuperset(launch.outputs):
            continue
        combined = contract(launch.kernel).combined_outputs
        outputs = {place for k, place in enumerate(launch.outputs) if place is not None and k not in combined}
        read = _blocks(launch.inputs) | {
            place.block for k, place in enumerate(launch.outputs) if k in combined and place
        }
        overwritten = {place for place in overwritten | outputs if place.block not in read}
        found.append(launch)
    return found[::-1]
