# SPDX-License-Identifier: BSD-3-Clause
"""Passes on the linear program, in the order in which they run. Each takes a program and gives another."""

from __future__ import annotations

from collections.abc import Callable

from ...program.ir import LinearProgram
from ...program.sizes import Symbols
from ..pass_result import PassResult
from .check import check_program
from .fuse_epilogues import fuse_epilogues
from .fuse_pointwise import fuse_pointwise
from .fuse_reductions import fuse_reductions
from .pack_weights import pack_weights
from .rewrite import remove_unused_buffers
from .store_programs import store_programs
from .target import FUNCTIONAL, Target

Observer = Callable[[str, LinearProgram], None]


def run_linear_passes(
    program: LinearProgram,
    *,
    exact: bool = True,
    weights: str | None = None,
    pack: bool = True,
    symbols: Symbols | None = None,
    target: Target = FUNCTIONAL,
    observe: Observer | None = None,
) -> tuple[LinearProgram, list[PassResult]]:
    """Runs the pipeline.

    exact: results keep the bits that the launches give one by one. pack, weights: whether pack_weights runs, and how.
    symbols: of a program whose sizes follow its calls. target: what one launch may join. observe: called with each
    pass's name and result. Each result is checked (check_program).
    """
    results = []
    passes: list[Callable[[LinearProgram], tuple[LinearProgram, PassResult]]] = [
        lambda p: pack_weights(p, one_row=not exact, weights=weights, symbols=symbols),
        *([lambda p: fuse_reductions(p, rounds=exact)] if target.reductions else []),
        lambda p: fuse_pointwise(p, rounds=exact, target=target),
        lambda p: fuse_epilogues(p, rounds=exact, target=target),
        store_programs,
        lambda p: (remove_unused_buffers(p), PassResult("remove_unused_buffers", ())),
    ]
    for run in passes if pack else passes[1:]:
        program, result = run(program)
        check_program(program, result.name)
        results.append(result)
        if observe is not None:
            observe(result.name, program)
    return program, results
