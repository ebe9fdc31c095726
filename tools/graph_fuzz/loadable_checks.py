# SPDX-License-Identifier: BSD-3-Clause
"""What is checked of a case as a loadable: bits and strides of eager mode at "exact", bounds at "fast", further calls
with other values and sizes, mutable buffers, programs that take turns, and the run without Python."""

from __future__ import annotations

import copy
import subprocess
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch._prims_common import is_non_overlapping_and_dense_or_false
from torch.export.passes import move_to_device_pass
from torch.utils._pytree import tree_leaves, tree_map

import torch_atalla
from torch_atalla.compiler.file.save import Level
from torch_atalla.compiler.passes.linear.check import ProgramError
from torch_atalla.compiler.schedule.verify_plan import PlanError
from torch_atalla.testing import tensors

from . import compare
from .checks import FACTOR, against_cpu, exported_strides, reason, same_bits, strides_of_copies
from .paths import Context, Forward, Problem, Refused, batch_of, forward, on_device, other_values, quiet, with_batch

RUN = Path(torch_atalla.__file__).parent / "bin/atalla-run"
GOLDEN = "does not give what PyTorch does"
INTERNAL = "please report this"


@dataclass
class Coverage:
    """What the loadables of a process exercised."""

    ops: Counter[str] = field(default_factory=Counter)
    passes: Counter[str] = field(default_factory=Counter)
    dtypes: Counter[str] = field(default_factory=Counter)
    refused_sizes: Counter[str] = field(default_factory=Counter)  # sets of sizes that a program refused, by check


COVERAGE = Coverage()


@dataclass
class Loaded:
    program: Any
    args: tuple
    expected: Forward


PREVIOUS: list[Loaded] = []  # a program that stays loaded beside the next one


def saved(
    ctx: Context, level: Level, path: Path, golden: bool
) -> tuple[torch.export.ExportedProgram, list[tuple[int, ...] | None]]:
    """Writes the file; gives the exported program, and the strides that its outputs have."""
    program = ctx.exported
    strides = exported_strides(program)
    try:
        with quiet():
            torch_atalla.save_loadable(
                program, path, fallback="error", optimize=level, golden=golden, epilogue=level == "fast"
            )
    except (PlanError, ProgramError):
        raise
    except torch_atalla.loadable.ExportError as error:
        if GOLDEN in str(error) or INTERNAL in str(error):
            raise
        raise Refused(_unsupported(error)) from None
    return program, strides


def _unsupported(error: Exception) -> str:
    ops = getattr(error, "ops", None)
    if ops:
        return f"{ops[0].op}: {ops[0].reason}"[:110]
    return reason(error)


def check_loadable(ctx: Context, level: Level) -> list[Problem]:
    with tempfile.TemporaryDirectory(prefix="graph_fuzz") as folder:
        path = Path(folder) / "program.atl"
        source, strides = saved(ctx, level, path, golden=False)
        program = torch_atalla.load_loadable(path)
    count(program)
    module, args = ctx.on_device()
    given = ctx.build()[1]
    found, wanted = called(program, module, args), forward(module, args)
    if ctx.case.dynamic:
        strides = [same or stride for same, stride in zip(same_but_for_ones(found, wanted), strides)]
    problems = checked(ctx, level, program, args, found, wanted, strides)
    if problems:
        return problems
    expected = Forward([x.clone() for x in found.outputs], [])
    try:
        other = tree_map(on_device, other_values(given, 3))
        second = forward(module, other)
    except (RuntimeError, IndexError, ValueError):  # offsets that must rise, and the like
        second = None
    if second is not None:
        shuffled = replace(ctx, change=lambda args: other_values(args, 3))
        again = called(program, module, other)
        problems = checked(shuffled, level, program, other, again, second, strides, "second call")
    for size in _sizes(program, given):
        resized = _with_size(given, size)
        fresh, _ = ctx.on_device()
        try:
            wanted = forward(fresh, tree_map(on_device, resized))
        except (RuntimeError, IndexError, ValueError):
            continue
        program.reset_state()
        given_now = tree_map(on_device, resized)
        try:
            found = called(program, fresh, given_now)
        except ValueError as error:  # beyond the sizes for which the ops stay the same a call is refused
            if takes(source, resized) and not (str(error).startswith("method ") and "expected" in str(error)):
                raise
            COVERAGE.refused_sizes[level] += 1
            continue
        with_size = replace(ctx, change=partial(_with_size, size=size))
        also = strides_at_size(ctx, found, wanted, strides)
        problems += checked(with_size, level, program, given_now, found, wanted, also, f"batch {size}")
    return problems or _turns(level, program, args, expected)


def strides_at_size(
    ctx: Context, found: Forward, wanted: Forward, strides: Sequence[tuple[int, ...] | None]
) -> list[tuple[int, ...] | None]:
    """Strides that are right at other sizes than the example's: where the export has other ones than eager mode, it has
    them for all sizes."""
    pairs = zip(found.outputs, same_but_for_ones(found, wanted), strides, ctx.eager.outputs)
    return [x.stride() if meta is not None and meta != first.stride() else same for x, same, meta, first in pairs]


def checked(
    ctx: Context, level: Level, program: Any, args: tuple, found: Forward, wanted: Forward,
    strides: Sequence[tuple[int, ...] | None], where: str = "",
) -> list[Problem]:  # fmt: skip
    """The differences of a call that the order of sums does not explain."""
    return if_not_by_order(ctx, level, program, args, compared(ctx, level, found, wanted, strides, where))


def _with_size(args: tuple, size: int) -> tuple:
    return with_batch(args, batch_of(args), size)


def _overlaps(value: Any) -> bool:
    if not isinstance(value, torch.Tensor) or not value.numel():
        return False
    return any(size > 1 and stride == 0 for size, stride in zip(value.shape, value.stride()))


def _has_gaps(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and not is_non_overlapping_and_dense_or_false(value)


def if_not_by_order(ctx: Context, level: str, program: Any, args: tuple, problems: list[Problem]) -> list[Problem]:
    """A program reads expanded inputs as contiguous ones, as well as ones with gaps that follow a dynamic size, and
    keeps values in the strides of the export, which are not always eager mode's. Its sums have the order of eager mode
    on such values: other bits are a problem only where they differ from these."""
    if not problems or any(p.category != "bits" for p in problems):
        return problems
    copied = _has_gaps if ctx.case.dynamic else _overlaps
    if any(map(copied, args)):
        args = tree_map(lambda value: value.contiguous() if copied(value) else value, args)
        module, _ = ctx.on_device()
        program.reset_state()
        found, wanted = called(program, module, args), forward(module, args)
        problems = compared(ctx, level, found, wanted, [value.stride() for value in found.outputs], "contiguous inputs")
    if not problems or ctx.case.dynamic:
        return problems
    program.reset_state()
    module, _ = ctx.on_device()
    result = called(program, module, args)
    differ = result.buffers or compare.bits(result.outputs, _of_exported_strides(ctx.exported, args))
    return problems if differ else []


def _of_exported_strides(program: torch.export.ExportedProgram, args: tuple) -> list[torch.Tensor]:
    """What the nodes of the export give one by one, each result copied to the strides that the export says."""

    class Restrided(torch.fx.Interpreter):
        def run_node(self, n: torch.fx.Node) -> Any:
            result, said = super().run_node(n), n.meta.get("val")
            if n.op != "call_function" or not isinstance(result, torch.Tensor) or not isinstance(said, torch.Tensor):
                return result
            if result.stride() == said.stride() or _overlaps(result) or _overlaps(said):
                return result
            return torch.empty_strided(said.shape, said.stride(), dtype=result.dtype, device="atalla").copy_(result)

    module: Any = move_to_device_pass(copy.deepcopy(program), "atalla").module(check_guards=False)
    with torch.no_grad():
        results = Restrided(module).run(*tree_leaves(args), enable_io_processing=False)
    return tensors(results)


def same_but_for_ones(found: Forward, wanted: Forward) -> list[tuple[int, ...] | None]:
    """Strides of results that are the wanted ones in all dimensions of more than one element. In the others PyTorch's
    meta functions, which a program of dynamic sizes follows, have strides of their own."""
    return [
        a.stride() if all(n == 1 or s == e for n, s, e in zip(a.shape, a.stride(), b.stride())) else None
        for a, b in zip(found.outputs, wanted.outputs)
    ]


def takes(program: torch.export.ExportedProgram, args: tuple) -> bool:
    """Whether the exported program itself takes arguments of these sizes."""
    try:
        with torch.no_grad(), quiet():
            program.module()(*args)
    except (RuntimeError, AssertionError, ValueError, IndexError, ZeroDivisionError):
        return False
    return True


def count(program: Any) -> None:
    data = program._program.describe()
    COVERAGE.ops.update(node["op"] for node in data["nodes"] if node["native"])
    COVERAGE.passes.update({name: 1 for name, changed in program.report.passes.items() if changed})
    COVERAGE.dtypes.update(str(spec.dtype).removeprefix("torch.") for spec in (*program.inputs, *program.outputs))


def called(program: Any, module: torch.nn.Module, args: tuple) -> Forward:
    with quiet():
        results = program(*args)
    names = [name for name, _ in module.named_buffers()]
    states = [program.read_state(name) for name in names if name in program.states]
    return Forward(tensors(results), states, [k for k, name in enumerate(names) if name in program.states])


def compared(
    ctx: Context, level: str, found: Forward, eager: Forward, strides: Sequence[tuple[int, ...] | None], where: str = ""
) -> list[Problem]:
    wanted = Forward(eager.outputs, [eager.buffers[k] for k in found.written])
    if level == "exact":
        problems = same_bits(level, found, wanted, True, strides)
    elif where and (different := compare.forms(found.all, wanted.all, dense=True, also=strides)) is not None:
        problems = [Problem(level, *different)]
    elif where and _roughly(found, wanted):
        problems = []
    else:
        outputs = [x.cpu() for x in wanted.outputs]
        bounds = partial(ctx.bounds, joined=True)
        also = strides_of_copies(found.outputs, wanted.outputs, strides)
        problems = against_cpu(level, found.outputs, outputs, bounds, not where, 2 * FACTOR, True, also)
    return [Problem(p.check, p.category, f"{p.text}{f' ({where})' if where else ''}") for p in problems]


def _roughly(found: Forward, wanted: Forward) -> bool:
    """No gross error: for further calls at "fast", so that bounds are measured for few of them."""
    for a, b in zip(found.outputs, wanted.outputs):
        if not b.is_floating_point() or not b.numel():
            continue
        first, second = a.cpu().double(), b.cpu().double()
        finite = torch.isfinite(first) & torch.isfinite(second)
        if not bool(finite.any()):
            continue
        scale = float(second[finite].abs().max())
        wrong = ((first - second).abs() > 0.25 * scale + 1e-3) & finite
        if float(wrong.sum()) > 0.3 * wrong.numel() and wrong.sum() > 2:
            return False
    return True


def _sizes(program: Any, given: tuple) -> list[int]:
    if not any(spec.dynamic for spec in program.inputs):
        return []
    batch = batch_of(given)
    return [size for size in (batch + 3, max(batch - 2, 2)) if size != batch]


def _turns(level: str, program: Any, args: tuple, expected: Forward) -> list[Problem]:
    """The program that was loaded before still gives what it gave."""
    problems = []
    for loaded in PREVIOUS:
        with quiet():
            results = loaded.program(*loaded.args)
        wrong = compare.bits(tensors(results), loaded.expected.outputs)
        if wrong is not None:
            problems.append(Problem(level, "turns", f"a program loaded earlier changed: {wrong}"))
    PREVIOUS.clear()
    if level == "exact" and not program.states and not any(map(_overlaps, args)):
        PREVIOUS.append(Loaded(program, args, expected))
    return problems


def check_golden(ctx: Context) -> list[Problem]:
    """Saving with golden outputs, which compare with PyTorch on the CPU."""
    with tempfile.TemporaryDirectory(prefix="graph_fuzz") as folder:
        path = Path(folder) / "program.atl"
        try:
            saved(ctx, "exact", path, golden=True)
        except torch_atalla.loadable.ExportError as error:
            if GOLDEN not in str(error):
                raise
            if _is_ill_conditioned(ctx):
                raise Refused("golden outputs of an ill-conditioned program") from None
            return [Problem("golden", "values", str(error).splitlines()[0][:200])]
    return []


def _is_ill_conditioned(ctx: Context) -> bool:
    """Whether rounding alone moves a result by more than a golden's tolerance."""
    for bound, value in zip(ctx.bounds(4.0, 8), ctx.cpu.all):
        scale = float(value.double().abs().nan_to_num(0, 0, 0).max()) if value.numel() and not value.is_complex() else 1
        if bool(bound.undetermined.any()) or float(bound.moved.max() if bound.moved.numel() else 0) > 5e-5 * scale:
            return True
    return False


def check_run(ctx: Context) -> list[Problem]:
    """The file in a process without Python and PyTorch."""
    module, args = ctx.build()
    tensors = [x for x in args if isinstance(x, torch.Tensor)]
    whole = (value.contiguous() if _overlaps(value) else value for value in args)  # as in if_not_by_order
    expected = forward(module.to("atalla"), tuple(map(on_device, whole))).outputs
    if any(x.dtype in (torch.bfloat16,) or x.is_complex() for x in (*tensors, *expected)) or not tensors:
        raise Refused("no .npy form")
    with tempfile.TemporaryDirectory(prefix="graph_fuzz") as folder:
        path = Path(folder) / "program.atl"
        saved(ctx, "exact", path, golden=False)
        words = [str(RUN), str(path)]
        for k, tensor in enumerate(tensors):
            np.save(f"{folder}/in{k}.npy", np.array(tensor.numpy(), order="C"))
            words += ["--input", f"{folder}/in{k}.npy"]
        for k in range(len(expected)):
            words += ["--output", f"{folder}/out{k}.npy"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60)
        if done.returncode:
            return [Problem("run", "error", f"exit status {done.returncode}: {done.stderr.strip()[:200]}")]
        found = [torch.from_numpy(np.load(f"{folder}/out{k}.npy")) for k in range(len(expected))]
    different = compare.forms(found, expected, strides=False)
    if different is not None:
        return [Problem("run", *different)]
    wrong = compare.bits(found, expected)
    return [] if wrong is None else [Problem("run", "bits", wrong)]
