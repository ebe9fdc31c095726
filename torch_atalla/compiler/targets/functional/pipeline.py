# SPDX-License-Identifier: BSD-3-Clause
"""All stages in order, up to the file. Each stage's result is kept and prints, so that every step can be looked at."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from torch_atalla.driver.extension import _C
from torch_atalla.loadable.errors import ExportError, UnsupportedOpsError

from ...capture.capture import Captured, capture
from ...linearize.linearize import linearize
from ...linearize.partition import Partition, partition
from ...lower.recording import Trace
from ...lower.views import MEMORY_VIEWS
from ...passes.graph import PassResult, run_passes
from ...passes.graph.channels_last import channels_innermost
from ...passes.linear import check_program, run_linear_passes
from ...passes.linear.stable_order import keep_order_of_equals
from ...passes.linear.states import update_states_in_place
from ...passes.linear.target import FUNCTIONAL, Target
from ...program.ir import LinearProgram
from ...schedule import ChipModel, chip_model
from ...schedule.plan import MemoryPlan, plan_memory
from ...schedule.verify_plan import verify_plan
from .dump import Dump

LEVELS = ("none", "exact", "fast")


@dataclass
class Lowered:
    """A program as launches, which both targets read."""

    captured: Captured  # after the passes
    passes: list[PassResult]
    partition: Partition
    program: LinearProgram
    graph: torch.fx.Graph | None = None  # for chip code: after the passes, before layouts change
    constants: dict[str, torch.Tensor] = field(default_factory=dict)  # of that graph


@dataclass
class Compiled:
    captured: Captured  # after the passes
    passes: list[PassResult]
    partition: Partition
    program: LinearProgram
    plan: MemoryPlan
    cores: tuple[int, ...] = ()  # over which each instruction is divided; empty without optimizations
    lowered: Lowered | None = None

    def __str__(self) -> str:
        sections = {
            "graph": self.captured,
            "passes": "\n".join(map(str, self.passes)),
            "segments": self.partition,
            "linear program": self.program,
            "memory plan": self.plan,
        }
        return "\n\n".join(f"== {title}\n{body}" for title, body in sections.items())


@dataclass(frozen=True)
class Options:
    """How a program is compiled.

    fallback: "cpu" runs nodes without a kernel through torch on the host; "error" raises UnsupportedOpsError, which
    lists them all. optimize: "none" launches what eager mode launches; "exact" joins launches, packs weights and so on
    where every bit of the results stays; "fast" does so too where rounding changes. fold, epilogue: see
    passes.run_passes; fold is by default "all" at "fast", else "exact". weights: "bfloat16" or "int8" (with a factor
    for each output), in which the weights of float32 products are stored. pack: weights may be packed; not so when
    programs share them. target: of all engines that the program is for. With chip code among
    them, it is lowered with channels innermost, and equal elements sorted in the order of their positions. cores:
    over which the program's code divides each instruction, for the program after its passes. Raises ExportError for a
    value that an option does not have.
    """

    fallback: str = "cpu"
    optimize: str = "exact"
    fold: str | None = None
    epilogue: bool = False
    weights: str | None = None
    pack: bool = True
    target: Target = FUNCTIONAL
    cores: Callable[[Lowered, LinearProgram], tuple[int, ...]] | None = None

    def __post_init__(self) -> None:
        if self.optimize not in LEVELS:
            raise ExportError(f'optimize: expected "none", "exact" or "fast", got {self.optimize!r}')
        if self.fallback not in ("cpu", "error"):
            raise ExportError(f'fallback: expected "cpu" or "error", got {self.fallback!r}')
        if self.weights not in (None, "bfloat16", "int8"):
            raise ExportError(f'weights: expected None, "bfloat16" or "int8", got {self.weights!r}')
        if self.weights is not None and self.optimize == "none":
            raise ExportError('weights: narrow weights are packed weights, which optimize="none" does not make')
        if self.fold not in (None, "exact", "all", "none"):
            raise ExportError(f'fold: expected "exact", "all" or "none", got {self.fold!r}')

    @property
    def exact(self) -> bool:
        return self.optimize != "fast"


def compile_program(
    program: torch.export.ExportedProgram | torch.nn.Module,
    args: tuple | None = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    dump: str | os.PathLike | None = None,
    decomposed: torch.export.ExportedProgram | None = None,
    states: Collection[str] = (),
    names: Mapping[str, str] | None = None,
    **options: Any,
) -> Compiled:
    """Captures a program and compiles it.

    dump: a directory, for what every pass left. decomposed, states, names:
    see capture. options: those of Options.
    """
    chosen = Options(**options)
    captured = capture(program, args, kwargs, decomposed=decomposed, states=states, names=names)
    return compile_captured(captured, chosen, dump=dump)


def compile_captured(
    captured: Captured,
    options: Options,
    *,
    dump: str | os.PathLike | None = None,
) -> Compiled:
    """Transforms, partitions, lowers, transforms again and plans; as compile_program."""
    out = Dump(dump)
    return plan_lowered(lower_captured(captured, options, out=out), options, out=out)


def lower_captured(captured: Captured, options: Options, *, out: Dump | None = None) -> Lowered:
    """The graph passes, and the launches of what they leave."""
    out = out or Dump(None)
    out.graph("capture", captured)
    exact, optimized = options.exact, options.optimize != "none"
    fold = options.fold or ("exact" if exact else "all")
    views = any(node.target in MEMORY_VIEWS for node in captured.graph.nodes)  # whose elements depend on strides
    keep_strides = exact or views
    passes = run_passes(
        captured,
        fold=fold,
        epilogue=options.epilogue or options.target.code,
        exact=exact,
        split=optimized,
        keep_strides=keep_strides and (views or not options.target.code),
        observe=out.graph,
    )
    graph, constants = None, {}
    if options.target.code:
        graph = _snapshot(captured.graph)
        constants = {name: constant.tensor for name, constant in captured.constants.items()}
        if not views:
            passes.append(channels_innermost(captured))
            out.graph("channels_innermost", captured)
        keep_strides = views
    traces: dict[Hashable, Trace] = {}
    parts = partition(captured, traces)
    if parts.unsupported and options.fallback == "error":
        raise UnsupportedOpsError(parts.unsupported)
    linear = linearize(captured, parts, keep_strides=keep_strides, traces=traces)
    check_program(linear, "linearize")
    out.program("linearize", linear)
    changes = [keep_order_of_equals] * options.target.code + [update_states_in_place] * bool(captured.updates)
    for change in changes:
        linear, result = change(linear)
        check_program(linear, result.name)
        passes.append(result)
        out.program(result.name, linear)
    return Lowered(captured, passes, parts, linear, graph, constants)


def _snapshot(graph: torch.fx.Graph) -> torch.fx.Graph:
    """A copy whose nodes keep their names, also those that fx would not give."""
    copied: dict[torch.fx.Node, torch.fx.Node] = {}
    result = torch.fx.Graph()
    result.output(result.graph_copy(graph, copied))
    for node, twin in copied.items():
        twin.name = node.name
    return result


def plan_lowered(lowered: Lowered, options: Options, *, out: Dump | None = None) -> Compiled:
    """The passes on launches, and places of the memory."""
    out, captured = out or Dump(None), lowered.captured
    linear, passes = lowered.program, list(lowered.passes)
    optimized = options.optimize != "none"
    if optimized:
        linear, more = run_linear_passes(
            linear,
            exact=options.exact,
            weights=options.weights,
            pack=options.pack,
            symbols=captured.symbols,
            target=options.target,
            observe=out.program,
        )
        passes += more
    plan = plan_memory(linear)
    verify_plan(linear, plan)
    out.plan(linear, plan)
    cores = (1,) * len(linear.instructions) if optimized else ()
    if options.cores is not None:
        cores = options.cores(lowered, linear)
    out.passes(passes)
    return Compiled(captured, passes, lowered.partition, linear, plan, cores, lowered)


def device_chip(ordinal: int = 0) -> ChipModel:
    """Return the model of a device's chip."""
    return chip_model(_C.chip_config(ordinal))
