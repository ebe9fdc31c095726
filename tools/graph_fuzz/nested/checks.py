# SPDX-License-Identifier: BSD-3-Clause
"""The checks of a case whose sizes are expressions of symbols: as a loadable and compiled, at each set of sizes,
against eager mode."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from torch.utils._pytree import tree_map

import torch_atalla
from torch_atalla.compiler.file.save import Level
from torch_atalla.testing import tensors

from ..checks import against_cpu
from ..loadable_checks import (
    COVERAGE,
    called,
    checked,
    compared,
    count,
    same_but_for_ones,
    saved,
    strides_at_size,
    takes,
)
from ..paths import Context, Forward, Problem, Refused, on_device, quiet
from ..program import Case
from .export import conditions, within_ranges


def check_symbols(ctx: Context) -> list[Problem]:
    """Eager mode at the further sizes."""
    problems = []
    for sizes in _sizes(ctx)[1:]:
        sized = _at(ctx, sizes)
        problems += _named(against_cpu("symbols", sized.eager.all, sized.cpu.all, sized.bounds), sizes)
    return problems


def check_symbols_compiled(ctx: Context) -> list[Problem]:
    """torch.compile with dynamic sizes, whose first call sees the sizes of the export, or else equal ones."""
    sizes = _sizes(ctx)
    if len(ctx.case.text) % 2:
        sizes = [*sizes[1:], sizes[0]]
    torch._dynamo.reset()
    module, _ = ctx.on_device()
    compiled = torch.compile(module, dynamic=True)
    problems: list[Problem] = []
    for values in sizes:
        sized = _at(ctx, values)
        wanted = sized.eager
        with torch.no_grad(), quiet():
            results = compiled(*tree_map(on_device, ctx.case.arguments(values)))
        found = Forward(tensors(results), [])
        also = same_but_for_ones(found, wanted)
        different = compared(sized, "fast", found, wanted, also)
        if any(problem.category == "layout" for problem in different):
            different = compared(sized, "fast", found, wanted, _compiled_on_the_cpu(ctx, values))
        problems += _named(_rename(different, "symbols compiled"), values)
    torch._dynamo.reset()
    return problems


def _compiled_on_the_cpu(ctx: Context, values: dict[str, int]) -> list[tuple[int, ...]]:
    """The strides that PyTorch's compiler gives results on the CPU: some are others than in eager mode."""
    module, _ = ctx.build()
    with torch.no_grad(), quiet():
        results = torch.compile(module, dynamic=True)(*ctx.case.arguments(values))
    return [x.stride() for x in tensors(results)]


def _sizes(ctx: Context) -> list[dict[str, int]]:
    if ctx.case.dynamic != "nested":
        raise Refused("no symbols")
    return list(ctx.case.sizes)


def _at(ctx: Context, sizes: dict[str, int]) -> Context:
    given = partial(ctx.case.arguments, sizes)
    return replace(ctx, change=lambda args: given())


def check_loadable(ctx: Context, level: Level) -> list[Problem]:
    every = _sizes(ctx)
    with tempfile.TemporaryDirectory(prefix="graph_fuzz") as folder:
        path = Path(folder) / "program.atl"
        source, strides = saved(ctx, level, path, golden=False)
        program = torch_atalla.load_loadable(path)
    count(program)
    problems: list[Problem] = []
    for k, values in enumerate(every):
        sized = _at(ctx, values)
        args = ctx.case.arguments(values)
        module, given = sized.on_device()
        try:
            found = called(program, module, given)
        except ValueError as error:
            known = str(error).startswith("method ") and (_squeezed(error) or _assumed(error, ctx.case))
            if k == 0 or (takes(source, args) and within_ranges(source, args) and not known):
                problems.append(Problem(f"symbols {level}", "refused sizes", f"{error} ({values})"[:300]))
            else:  # or beyond the bounds of the export
                COVERAGE.refused_sizes[f"symbols {level}"] += 1
            continue
        also = strides_at_size(ctx, found, sized.eager, strides)
        different = checked(sized, level, program, given, found, sized.eager, also)
        problems += _named(_rename(different, f"symbols {level}"), values)
    return problems


def _squeezed(error: ValueError) -> bool:
    """At a size of one, an op such as squeeze becomes another, with a result of another rank."""
    return "expected Ne(" in str(error)


def _assumed(error: ValueError, case: Case) -> bool:
    """Whether the condition that the call did not meet is one that PyTorch takes for granted as it exports the program
    or takes it apart: it writes down one of several forms of an op, such as a diagonal that ends with the rows."""
    found = re.search(r"expected (.*) \[ATALLA_ERR_ARGUMENT\]", str(error))
    return found is not None and found[1] in conditions(case)


def _rename(problems: list[Problem], check: str) -> list[Problem]:
    return [replace(problem, check=check) for problem in problems]


def _named(problems: list[Problem], sizes: dict[str, int]) -> list[Problem]:
    return [replace(problem, text=f"{problem.text} ({sizes})") for problem in problems]


SYMBOL_CHECKS: dict[str, Callable[[Context], list[Problem]]] = {
    "symbols": check_symbols,
    "symbols exact": partial(check_loadable, level="exact"),
    "symbols fast": partial(check_loadable, level="fast"),
    "symbols compiled": check_symbols_compiled,
}
