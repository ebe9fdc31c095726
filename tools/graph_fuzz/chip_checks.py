# SPDX-License-Identifier: BSD-3-Clause
"""What is checked of a case as chip code in bfloat16: values of every node, and files that the driver runs."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache, wraps
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

import torch_atalla
from torch_atalla import telemetry
from torch_atalla.compiler.capture.capture import capture
from torch_atalla.compiler.schedule.chip_model import chip_model
from torch_atalla.compiler.targets.chip.build import CompiledNetwork, checked, compile_lowered, compile_model
from torch_atalla.compiler.targets.chip.check import check_network, example_inputs, reference_outputs
from torch_atalla.compiler.targets.chip.fusion import CHIP
from torch_atalla.compiler.targets.chip.network import NoProgramError
from torch_atalla.compiler.targets.functional.pipeline import Options, lower_captured
from torch_atalla.explorer.space import with_values
from torch_atalla.loadable.errors import ExportError
from torch_atalla.loadable.program import LoadedProgram
from torch_atalla.testing import tensors

from . import compare
from .checks import against_cpu, exported_strides, reason, strides_of_copies
from .conditioning import Bounds, jittered, measure
from .paths import Context, Problem, Refused, export, forward, on_device, other_values, quiet
from .unspecified import masked_scores_left_out, plain_control_flow

METHODS = ("forward", "again")
FOUR_CORES = with_values(
    (Path(__file__).parents[2] / "csrc/sim/chip.toml").read_text(), {"core.count": 4, "core.scratchpads": "own"}
)
OTHER = 3  # the seed of the second call's values
SAME_CYCLES = 0.01  # between the cycles that the device reports for a file and those of its code


class _Integers(TorchDispatchMode):
    """Sees whether an op gives an integer beyond 32 bits."""

    def __init__(self) -> None:
        super().__init__()
        self.wide = False

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for value in tree_leaves(result):
            if isinstance(value, torch.Tensor) and value.dtype in (torch.int64, torch.uint32) and value.numel():
                self.wide |= int(value.max()) >= 2**31 or int(value.min()) < -(2**31)
        return result


def _of_32_bits(check: Callable[[Context], list[Problem]]) -> Callable[[Context], list[Problem]]:
    """A check that raises Refused for the documented fault of integers beyond 32 bits, where the program has such."""

    @wraps(check)
    def refusing(ctx: Context) -> list[Problem]:
        try:
            return check(ctx)
        except RuntimeError as error:
            if "does not fit in 32 bits" not in str(error):
                raise
            for args in (ctx.build_bfloat16()[1], other_values(ctx.build_bfloat16()[1], OTHER)):
                with _Integers() as seen, suppress(RuntimeError, IndexError, ValueError), plain_control_flow():
                    forward(ctx.build_bfloat16()[0], args)
                if seen.wide:
                    raise Refused("an integer beyond 32 bits") from None
            raise

    return refusing


@contextmanager
def _refusing() -> Iterator[None]:
    """Raises Refused for programs that are not compiled, with the first launch that has no code."""
    try:
        with quiet():
            yield
    except NoProgramError as error:
        first = str(error).splitlines()
        raise Refused(reason(ValueError(f"no program: {first[1 if len(first) > 1 else 0].strip()}"))) from None
    except ExportError as error:
        raise Refused(reason(error)) from None


@lru_cache(maxsize=1)
def _compiled(ctx: Context) -> tuple[torch.export.ExportedProgram, CompiledNetwork]:
    try:
        forward(*ctx.build_bfloat16())
    except (RuntimeError, NotImplementedError) as error:
        raise Refused(f"the CPU: {reason(error)[:80]}") from None
    module, args = ctx.build_bfloat16()
    program = export(module, args)  # refused where the program insists on other dtypes
    with _refusing():
        return program, compile_model(program)


def _against_graph(
    compiled: CompiledNetwork, given: list[torch.Tensor], where: str = "", check: str = "isa"
) -> list[Problem]:
    try:
        with quiet():
            check_network(compiled, given)
    except ExportError as error:
        return [Problem(check, "check", str(error)[:300] + where)]
    return []


@_of_32_bits
def check_isa(ctx: Context) -> list[Problem]:
    """Every stored value against the graph in float64, for two sets of inputs, and the outputs against eager mode."""
    (program, compiled), (_, args) = _compiled(ctx), ctx.build_bfloat16()
    problems = _against_graph(compiled, tensors(args))
    if problems:
        return problems
    other = other_values(args, OTHER)
    if _succeeds(lambda: forward(ctx.build_bfloat16()[0], other)):
        problems = _against_graph(compiled, tensors(other), " (second call)")
    with quiet():
        found = [_narrow(x) for x in compiled.run(tensors(args)).outputs]
    try:
        wanted = [_narrow(x) for x in forward(*ctx.on_device(bfloat16=True)).outputs]
    except NotImplementedError:  # eager mode has no kernel in bfloat16
        return problems
    expected = [value.cpu() for value in wanted]

    def bounds(ulps: float = 2.0, runs: int = 4) -> list[Bounds]:
        def work(module: torch.nn.Module, args: tuple) -> list[torch.Tensor]:
            return [_narrow(x) for x in forward(module, args).outputs]

        try:
            results = [jittered(work, ctx.build_bfloat16, 100 + k, ulps, chip=True) for k in range(runs)]
            if "scaled_dot_product" in ctx.case.text:
                with masked_scores_left_out():
                    results.append(jittered(work, ctx.build_bfloat16, 100, ulps))
            return measure(expected, results)
        except RuntimeError as error:  # a probability that the change moved beyond 1, and the like
            raise Refused(f"the CPU: {reason(error)[:80]}") from None

    also = strides_of_copies(found, wanted, exported_strides(program))
    problems += against_cpu("isa", found, expected, bounds, dense=True, also=also)
    return problems or _on_four_cores(program, found, tensors(args))


def _on_four_cores(
    program: torch.export.ExportedProgram, expected: list[torch.Tensor], given: list[torch.Tensor]
) -> list[Problem]:
    """Launches that are divided among cores give the bits of one core."""
    with quiet():
        divided = compile_model(program, chip=chip_model(FOUR_CORES))
        found = [_narrow(x) for x in divided.run(given, cores=divided.network.image.cores).outputs]
    for k, (a, b) in enumerate(zip(found, expected)):
        if not torch.equal(a.nan_to_num(7), b.nan_to_num(7)):
            return [Problem("isa", "cores", f"result {k} has other bits on four cores than on one")]
    return []


def check_sizes(ctx: Context) -> list[Problem]:
    """Chip code for a size that the call determines, at the smallest, a middle and the largest size: every stored value
    against the graph in float64, and the outputs against the exported program on the CPU."""
    if ctx.case.dynamic != "bounded":
        raise Refused("no bounded size")
    module, args = ctx.build_bfloat16()
    program = export(module, args, ctx.case.dynamic)
    with _refusing():
        lowered = lower_captured(capture(program), Options(optimize="fast", target=CHIP))
        sizes = compile_lowered(lowered, program)
    if not sizes[0].sizes:
        raise Refused("the export fixed the size")
    problems = []
    for compiled in checked(sizes):
        given = example_inputs(compiled)
        if _succeeds(lambda: reference_outputs(compiled, given)):  # noqa: B023 (called at once)
            problems += _against_graph(compiled, given, f" (sizes {compiled.sizes})", check="sizes")
    return problems


def _narrow(x: torch.Tensor) -> torch.Tensor:
    """What chip code keeps of an FP32 result."""
    return x.bfloat16() if x.dtype is torch.float32 else x


def _succeeds(call: Callable[[], Any]) -> bool:
    try:
        call()
    except (RuntimeError, IndexError, ValueError):  # offsets that must rise, and the like
        return False
    return True


@_of_32_bits
def check_code(ctx: Context) -> list[Problem]:
    """A file with two methods of chip code that share their mutable buffers: the driver gives the bits that the engine
    gives without it, several calls leave what the launches of the file leave, and the launches take the code's
    cycles."""
    (program, compiled), (_, args) = _compiled(ctx), ctx.build_bfloat16()
    with tempfile.TemporaryDirectory(prefix="graph_fuzz") as folder:
        path = Path(folder) / "program.atl"
        with quiet():
            report = torch_atalla.save_loadable(dict.fromkeys(METHODS, program), path, engine="isa", fallback="error")
        chip = torch_atalla.load_loadable(path, engine="isa")
        launches = torch_atalla.load_loadable(path)
    given = tree_map(on_device, args)
    for name in METHODS:
        chip.reset_state()
        found = [x.cpu() for x in tensors(chip[name](*given))]
        expected = compiled.run(tensors(args)).outputs
        wrong = compare.forms(found, expected, strides=False) or compare.bits(found, expected)
        if wrong is not None:
            return [Problem("code", "bits", f"method {name}: {wrong}")]
    count = report.launches // len(METHODS)
    return (_cycles(launches, count, chip, args) if count else []) or _states(launches, chip, given)


def _cycles(launches: LoadedProgram, count: int, chip: LoadedProgram, args: tuple) -> list[Problem]:
    """The launches, so many, against the code. Code whose cycles depend on values has no right number."""

    def executed(args: tuple) -> int:
        chip(*tree_map(on_device, args))
        return chip.stats.cycles

    given = tree_map(on_device, args)
    torch.accelerator.synchronize()
    telemetry.reset()
    launches(*given)
    torch.accelerator.synchronize()
    reported = sum(record.cycles for record in telemetry.launches()[-count:])  # without copies of inputs
    found = executed(args)
    if abs(found - reported) <= SAME_CYCLES * reported:
        return []
    zeros = tree_map(lambda x: torch.zeros_like(x) if isinstance(x, torch.Tensor) else x, args)
    for other in (other_values(args, OTHER), zeros):
        with suppress(RuntimeError, IndexError, ValueError):  # offsets that must rise, and the like
            if executed(other) != found:
                return []
    return [Problem("code", "cycles", f"{found} executed, {reported} reported")]


def _states(launches: LoadedProgram, chip: LoadedProgram, given: tuple) -> list[Problem]:
    if not chip.states:
        return []
    launches.reset_state()
    chip.reset_state()
    for name in (*METHODS, METHODS[0]):
        with quiet():
            chip[name](*given), launches[name](*given)
    for name in chip.states:
        one, other = chip.read_state(name).cpu().double(), launches.read_state(name).cpu().double()
        scale = float(other[torch.isfinite(other)].abs().max()) if bool(torch.isfinite(other).any()) else 0.0
        if bool(((one - other).abs() > 0.1 * scale + 1e-3).any()):
            return [Problem("code", "states", f"buffer {name} after three calls: {one}, expected {other}"[:300])]
    return []
