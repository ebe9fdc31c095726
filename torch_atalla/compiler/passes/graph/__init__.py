# SPDX-License-Identifier: BSD-3-Clause
"""Graph passes, in the order in which they run. Each takes a Captured, changes its graph, and returns what it did."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from torch_atalla.loadable.errors import ExportError

from ...capture.capture import Captured
from ...program.layouts import are_numbers, dense_meta
from ..pass_result import PassResult
from .batch_norm import fold_batch_norm, split_batch_norm
from .common_subexpressions import merge_common_subexpressions
from .dead_code import remove_dead_code
from .fold_constants import fold_constants
from .fuse_attention import fuse_attention
from .fuse_epilogue import fuse_epilogue
from .fuse_norms import fuse_norms
from .merge_heads import merge_heads
from .remove_identities import remove_identities
from .simplify_masks import narrow_masks, simplify_masks
from .split_rotary import split_rotary


def run_passes(
    captured: Captured,
    *,
    fold: str = "exact",
    epilogue: bool = False,
    exact: bool = True,
    split: bool = True,
    keep_strides: bool = False,
    observe: Callable[[str, Captured], None] | None = None,
) -> list[PassResult]:
    """Runs the pipeline.

    fold: "exact" folds only what gives the bits that the chip would give; "all" folds every op on constants; "none".
    epilogue: fuse an activation into the matrix product before it. Then results differ from eager mode by rounding.
    exact: leave out passes that change rounding. split: simpler masks of attention, rotary embedding by halves, batch
    norm into its arithmetic.
    keep_strides: copies that change strides stay. observe: called with each pass's name and the graph that it left.
    """

    def folded(graph: Captured) -> PassResult:
        return fold_constants(graph, exact_only=fold == "exact")

    passes: list[Callable[[Captured], PassResult]] = [lambda graph: remove_identities(graph, keep_strides=keep_strides)]
    if split:
        passes.append(narrow_masks)
    if fold != "none":
        passes.append(folded)
    passes.append(merge_common_subexpressions)
    if split:
        passes += [lambda graph: simplify_masks(graph, exact=exact), merge_heads, split_rotary]
    if not exact:
        passes += [fold_batch_norm, fuse_attention, fuse_norms]
        # Masks in the form that the attention kernel takes: of constants, and the same for every layer.
        passes += [*([folded] if fold != "none" else []), merge_common_subexpressions]
    if split and fold != "none":
        passes.append(split_batch_norm)
    if epilogue:
        passes.append(fuse_epilogue)
    passes.append(remove_dead_code)
    results = []
    for run in passes:
        before = _layouts(captured) if keep_strides else {}
        results.append(run(captured))
        _check_layouts(results[-1].name, before, _layouts(captured) if keep_strides else {})
        if observe is not None:
            observe(results[-1].name, captured)
    captured.graph_module.recompile()
    return results


_Layout = tuple[tuple[int, ...], tuple[int, ...]]


def _layouts(captured: Captured) -> dict[tuple[str, int], _Layout]:
    """Sizes and strides of what each node reads, if they are numbers."""
    found = {}
    for node in captured.graph.nodes:
        sources: list[Any] = []
        torch.fx.map_arg((node.args, node.kwargs), sources.append)
        for k, source in enumerate(sources):
            value = source.meta.get("val")
            if isinstance(value, torch.Tensor) and are_numbers(value.shape, value.stride()):
                dense = dense_meta(value)
                found[node.name, k] = (tuple(dense.shape), dense.stride())
    return found


def _check_layouts(name: str, before: dict[tuple[str, int], _Layout], after: dict[tuple[str, int], _Layout]) -> None:
    """Strides decide in which order kernels add: a pass must not change those that remaining nodes read."""
    for (reader, k), layout in before.items():
        if after.get((reader, k), layout) != layout:
            raise ExportError(
                f"pass {name}: operand {k} of {reader} has sizes and strides {after[reader, k]}, expected {layout}; "
                "please report this program"
            )
