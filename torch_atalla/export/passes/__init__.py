# SPDX-License-Identifier: BSD-3-Clause
"""Graph passes, in the order in which they run. Each takes a Captured, changes its graph, and returns what it did."""

from __future__ import annotations

from ..capture import Captured
from .common_subexpressions import merge_common_subexpressions
from .dead_code import remove_dead_code
from .fold_constants import fold_constants
from .fuse_epilogue import fuse_epilogue
from .pass_result import PassResult
from .remove_identities import remove_identities


def run_passes(captured: Captured, *, fold: str = "exact", epilogue: bool = False) -> list[PassResult]:
    """Runs the pipeline.

    fold: "exact" folds only what gives the bits that the chip would give; "all" folds every op on constants; "none".
    epilogue: fuse an activation into the matrix product before it. Then results differ from eager mode by rounding.
    """
    results = [remove_identities(captured)]
    if fold != "none":
        results.append(fold_constants(captured, exact_only=fold == "exact"))
    results.append(merge_common_subexpressions(captured))
    if epilogue:
        results.append(fuse_epilogue(captured))
    results.append(remove_dead_code(captured))
    captured.graph_module.recompile()
    return results


__all__ = [
    "PassResult",
    "fold_constants",
    "fuse_epilogue",
    "merge_common_subexpressions",
    "remove_dead_code",
    "remove_identities",
    "run_passes",
]
