# SPDX-License-Identifier: BSD-3-Clause
"""What is checked of a case in eager mode: values, gradients and replays of a captured graph. Each check raises Refused
where its path does not take the case."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._prims_common import is_non_overlapping_and_dense_or_false
from torch.utils._pytree import tree_map

from torch_atalla.compiler.program.layouts import same_layout
from torch_atalla.device.graphs import Graph
from torch_atalla.device.graphs import graph as capture
from torch_atalla.testing import tensors

from . import compare
from .conditioning import Bounds
from .paths import Context, Forward, Problem, Refused, forward, loss_and_gradients, on_device, other_values, quiet

FACTOR = 12.0  # times what rounding moves: ops on the device may round otherwise at every step
WIDE = (8.0, 192)  # ulps and runs, before a difference counts


def against_cpu(
    check: str,
    found: list[torch.Tensor],
    expected: list[torch.Tensor],
    bounds: Callable[..., list[Bounds]],
    strides: bool = True,
    factor: float = FACTOR,
    dense: bool = False,
    also: Sequence[tuple[int, ...] | None] = (),
) -> list[Problem]:
    different = compare.forms(found, expected, strides, dense, also)
    if different is not None and different[0] != "layout":
        return [Problem(check, *different)]
    problems = [] if different is None else [Problem(check, *different)]
    if compare.close(found, expected) or compare.values(found, expected, bounds(), factor) is None:
        return problems
    # Few runs may miss an element that rounding moves: look again with more of them.
    wrong = compare.values(found, expected, bounds(*WIDE), factor)
    return problems if wrong is None else [*problems, Problem(check, *wrong)]


def check_eager(ctx: Context) -> list[Problem]:
    expected, found = ctx.cpu, ctx.eager
    problems = against_cpu(
        "eager", found.all, expected.all, ctx.bounds, also=_of_converted(ctx, found.all, expected.all)
    )
    shared, wanted = compare.sharing(found.outputs), compare.sharing(expected.outputs)
    if not problems and [first for first, _ in shared] != [first for first, _ in wanted]:
        problems.append(Problem("eager", "aliasing", f"outputs share memory as {shared}, expected {wanted}"))
    return problems


def _of_converted(
    ctx: Context, found: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]
) -> list[tuple[int, ...] | None]:
    """The strides of `found` that differ from the expected ones in dimensions of size 1 alone, if the inputs have
    several dtypes: the CPU, and no other device, converts operands before it looks at their strides."""
    if len({x.dtype for x in tensors(ctx.build()[1])}) < 2:
        return []
    return [
        a.stride() if same_layout(tuple(b.shape), a.stride(), b.stride()) else None for a, b in zip(found, expected)
    ]


def check_backward(ctx: Context) -> list[Problem]:
    try:
        expected = loss_and_gradients(*ctx.build())
    except (RuntimeError, NotImplementedError) as error:  # written in place, or no derivative
        raise Refused(f"the CPU: {str(error).splitlines()[0][:80]}") from None
    found = loss_and_gradients(*ctx.on_device())
    return against_cpu("backward", found, expected, lambda *how: ctx.gradient_bounds(expected, *how), strides=False)


def check_graph(ctx: Context) -> list[Problem]:
    """Replays of a graph that recorded one call, with other values in its inputs."""
    module, args = ctx.on_device()
    given = ctx.build()[1]
    results: Forward | None = None
    graph = Graph()
    try:
        with torch.no_grad(), quiet():
            forward(module, args)  # what is compiled or allocated once
        start = [buffer.clone() for buffer in module.buffers()]
        with capture(graph):
            results = forward(module, args)
    except (RuntimeError, NotImplementedError) as error:
        if "captur" in str(error):
            raise Refused(f"capture: {str(error).splitlines()[0][:80]}") from None
        raise
    other = other_values(given, 5)
    for static, value in zip(args, other):
        if isinstance(value, torch.Tensor):
            flat = value.untyped_storage().nbytes() // value.itemsize
            static.as_strided((flat,), (1,), 0).copy_(value.as_strided((flat,), (1,), 0))
    with torch.no_grad():
        for buffer, first in zip(module.buffers(), start):
            buffer.copy_(first)
    fresh, _ = ctx.on_device()
    with torch.no_grad():
        for buffer, first in zip(fresh.buffers(), start):
            buffer.copy_(first)
    try:
        expected = forward(fresh, tree_map(on_device, other))
    except (RuntimeError, IndexError, ValueError) as error:
        raise Refused(f"other values: {str(error).splitlines()[0][:80]}") from None
    graph.replay()
    torch.accelerator.synchronize()
    return same_bits("graph", results, expected)


def same_bits(
    check: str, found: Forward, expected: Forward, dense: bool = False, also: Sequence[tuple[int, ...] | None] = ()
) -> list[Problem]:
    different = compare.forms(found.all, expected.all, dense=dense, also=also)
    if different is not None:
        return [Problem(check, *different)]
    wrong = compare.bits(found.all, expected.all)
    return [] if wrong is None else [Problem(check, "bits", wrong)]


def strides_of_copies(
    found: Sequence[torch.Tensor], wanted: Sequence[torch.Tensor], strides: Sequence[tuple[int, ...] | None]
) -> list[tuple[int, ...] | None]:
    """`strides`, but those of `found` where a copy of `wanted` has others: it has no gaps and shares no elements."""
    return [
        given if is_non_overlapping_and_dense_or_false(b) else a.stride() for a, b, given in zip(found, wanted, strides)
    ]


def exported_strides(program: torch.export.ExportedProgram) -> list[tuple[int, ...] | None]:
    """Of the outputs, as PyTorch's meta functions say; where these differ from the CPU's, both are right."""
    returned = program.graph.output_node().args[0][-len(program.graph_signature.user_outputs) or None :]
    values = [getattr(node, "meta", {}).get("val") for node in returned]

    def number(size: Any) -> int:  # of the example; a comparison would add a condition to the program
        return size.node.hint if isinstance(size, torch.SymInt) else size

    return [tuple(map(number, value.stride())) if isinstance(value, torch.Tensor) else None for value in values]


def reason(error: BaseException) -> str:
    """The first line of what a path says when it does not take a program, without the names of one program."""
    import re

    text = str(error).splitlines()[0] if str(error) else type(error).__name__
    text = re.sub(r"\(node [^)]*\)", "", text)
    return re.sub(r"\d+", "N", text)[:110]
