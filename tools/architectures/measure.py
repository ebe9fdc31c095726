# SPDX-License-Identifier: BSD-3-Clause
"""One architecture: built, exported on the CPU, saved as a loadable, and compared with the CPU for two inputs."""

from __future__ import annotations

import copy
import json
import random
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from tools.architectures.choices import Choices
from tools.architectures.inputs import SIZES, Inputs, candidates
from tools.architectures.registry import model_class
from tools.architectures.rules import RULES
from tools.architectures.small_config import small_config
from tools.comparison import TOLERANCE, Tensors, difference, on_device, tensors
from tools.pages import ROOT

MOST = 50_000_000  # parameters of a model that is not narrow
NOISE = 0.02  # standard deviation of what is added to each parameter
SMALL_SCALE = 0.1  # mean of a normalization's scales that is lost after a few layers
ROUNDING = 10 * TOLERANCE  # difference that no output may have, whatever rounding does to it on the CPU
DEPENDENCE = 10 * TOLERANCE  # difference that other inputs must make, else a program that ignores them would pass
PATIENCE = 8  # seconds of the processor, after which no other rule or inputs are tried
KEPT = ROOT / "build/architectures"  # results, a file for each, written step by step
STAGES = ("build", "inputs", "export", "save", "load", "run", "compare", "done")


@dataclass
class Result:
    model_type: str
    name: str = ""  # of the model's class
    stage: str = "build"  # the step that failed, "done" if none did
    reason: str = ""
    trace: str = ""
    inputs: list[str] = field(default_factory=list)
    exporter: str = ""  # torch.export, or transformers' DynamoExporter, which calls it
    rule: str = ""  # of rules.py, by which the model is small
    parameters: int = 0
    outputs: int = 0
    launches: int = 0
    cycles: int = 0
    error: float = 0.0
    seconds: float = 0.0  # of the processor

    @property
    def exported(self) -> bool:
        return (
            self.stage in STAGES[STAGES.index("save") :] or self.stage in ("time-out", "crash") and bool(self.exporter)
        )

    @property
    def right(self) -> bool:
        return self.stage == "done"

    @property
    def is_complete(self) -> bool:
        """Whether the run of the architecture came to its end."""
        return self.right or bool(self.reason)


class ExportDiffers(Exception):
    """The exported program is not the model. That is upstream's, and the loadable is as the program."""


class InputsVanish(ValueError):
    """The outputs on the CPU do not depend on the inputs."""


def seed(number: int) -> None:
    random.seed(number)
    np.random.seed(number)
    torch.manual_seed(number)


def build(model_type: str, rule: str = RULES[0], strong: bool = False) -> nn.Module:
    """The small model, with noise on its parameters so that none is zero. Raises ValueError if it is not small. strong:
    with weights that keep the size of activations, for models that lose them otherwise: more noise, and scales of
    normalizations near one where the model's own initial values are near zero."""
    kind, config = model_class(model_type), small_config(model_type, rule)
    if rule != RULES[0]:
        with torch.device("meta"):
            count = sum(p.numel() for p in kind(copy.deepcopy(config)).parameters())
        if count > MOST:
            raise ValueError(f"{count:,} parameters, at most {MOST:,}")
    seed(0)
    model = kind(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.is_floating_point():
                noise = parameter[0].numel() ** -0.5 if strong and parameter.ndim > 1 else NOISE
                if strong and parameter.ndim == 1 and name.endswith("weight") and parameter.abs().mean() < SMALL_SCALE:
                    parameter.add_(1.0)
                parameter.add_(torch.randn_like(parameter), alpha=noise)
    return model.float()


def first_accepted(model: nn.Module) -> list[Inputs]:
    """The first inputs that forward takes, for two seeds. Raises the problem of the first inputs if it takes none,
    but not that inputs are missing."""
    problem: Exception = ValueError("no input is known that forward takes")
    start = time.process_time()
    seed(1)
    for place, inputs in enumerate(candidates(model)):
        try:
            first = [x.clone() for x in tensors(model(**inputs))]
            if not first:
                continue
            state = torch.get_rng_state()
            several = [inputs, inputs_at(model, place, 2)]
            torch.set_rng_state(state)
            found = [[x.clone() for x in tensors(model(**some))] for some in several]
            check_inputs(found)
            if any(difference(a, b) > TOLERANCE for a, b in zip(found[0], first, strict=True)):
                raise ValueError("the outputs are random: they differ between two calls on the CPU")
            return several
        except Exception as error:
            problem = error if place == 0 or " missing " in str(problem) else problem
            if time.process_time() - start > PATIENCE:
                break
    raise problem


def fitting(model_type: str, result: Result) -> tuple[nn.Module, list[Inputs]]:
    """The model with the first rule that suits it, and inputs for two seeds. Raises the problem of the rule that came
    furthest."""
    problem: Exception | None = None
    start = time.process_time()
    for rule in RULES:
        if time.process_time() - start > PATIENCE:
            break
        stage = "build"
        try:
            model = build(model_type, rule)
            stage = "inputs"
            found = with_inputs(model, model_type, rule)
        except ImportError:
            raise
        except Exception as error:
            result.seconds = time.process_time() - start
            if problem is None or (stage, result.stage) == ("inputs", "build"):
                problem, result.stage = error, stage
            continue
        result.rule, result.stage = rule, "inputs"
        return found
    assert problem is not None
    raise problem


def with_inputs(model: nn.Module, model_type: str, rule: str) -> tuple[nn.Module, list[Inputs]]:
    """The model and inputs for it, or its strong form where the outputs need one: if they do not depend on the inputs,
    or if choices on the way to them are not clear."""
    found = None
    try:
        found = model, first_accepted(model)
        if are_choices_clear(*found):
            return found
    except InputsVanish:
        pass
    strong = build(model_type, rule, strong=True)
    try:
        several = first_accepted(strong)
    except Exception:
        if found is None:
            raise
        return found
    return strong, several


def are_choices_clear(model: nn.Module, several: list[Inputs]) -> bool:
    with Choices() as choices:
        for inputs in several:
            model(**inputs)
    return choices.are_clear


def inputs_at(model: nn.Module, place: int, number: int) -> Inputs:
    seed(number)
    return next(inputs for i, inputs in enumerate(candidates(model)) if i == place)


def export(
    module: Tensors, inputs: Inputs, result: Result
) -> tuple[torch.export.ExportedProgram, Callable[[Inputs], Inputs]]:
    """By torch.export, and where that fails as transformers documents it, by its DynamoExporter. The second result
    makes what the program takes from inputs."""
    try:
        program = torch.export.export(module, (), inputs, strict=False)
        result.exporter = "torch.export"
        return program, dict
    except Exception as plain:
        from transformers.exporters import DynamoConfig, DynamoExporter

        fixed = {name: getattr(module, f"fixed_{name}") for name in module.fixed}
        model: Any = module.model
        try:
            program, _ = DynamoExporter().export_program(model, inputs | fixed, DynamoConfig())
        except Exception:
            raise plain from None
        result.exporter = "DynamoExporter"
        return with_fixed(program, prepared(model, inputs | fixed), fixed), partial(prepared_without, model, fixed)


def with_fixed(program: torch.export.ExportedProgram, inputs: Inputs, fixed: Inputs) -> torch.export.ExportedProgram:
    """The program with some of its inputs as constants."""
    if not fixed:
        return program
    bound = Tensors(program.module(), tensors, fixed)
    given = {name: value for name, value in inputs.items() if name not in fixed}
    return torch.export.export(bound, (), given, strict=False)


def prepared_without(model: Any, fixed: Inputs, inputs: Inputs) -> Inputs:
    return {name: value for name, value in prepared(model, inputs | fixed).items() if name not in fixed}


def prepared(model: Any, inputs: Inputs) -> Inputs:
    """With what DynamoExporter computes beforehand."""
    from transformers.exporters.utils import prepare_for_export

    return dict(prepare_for_export(model, dict(inputs))[1])


@torch.no_grad()
def measure(model_type: str, result: Result, progress: Any = lambda: None) -> Result:
    """Fills the result step by step; progress() is called when a step is over."""
    from torch_atalla import load_loadable, save_loadable

    start = time.process_time()

    def enter(stage: str) -> None:
        result.stage, result.seconds = stage, time.process_time() - start
        progress()

    try:
        result.name = model_class(model_type).__name__
        model, several = fitting(model_type, result)
        inputs = several[0]
        result.parameters = sum(p.numel() for p in model.parameters())
        result.inputs = list(inputs)
        fixed = {name: inputs.pop(name) for name in SIZES if name in inputs}
        for some in several[1:]:
            for name in fixed:
                some.pop(name)
        module = Tensors(model, tensors, fixed)
        expected = [[x.clone() for x in module(**some)] for some in several]
        enter("export")
        program, taken = export(module, inputs, result)
        enter("save")
        given = [taken(some) for some in several]
        result.outputs = len(expected[0])
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.atl"
            report = save_loadable(program, path, fallback="error", golden=False)
            result.launches, result.cycles = report.launches, report.estimate_cycles or 0
            enter("load")
            loaded = load_loadable(path, device="atalla")
            enter("run")
            found = [tensors(loaded(**on_device(some))) for some in given]
        enter("compare")
        try:
            check(result, found, expected)
        except ValueError:
            blame_export(result, program, given, found, expected)
            check(result, found, expected, allowed(module, several, expected))
        enter("done")
    except Exception as error:
        result.reason = f"{type(error).__name__}: {error}"[:2000]
        result.trace = "".join(traceback.format_exc()[-3000:])
    result.seconds = time.process_time() - start
    return result


def blame_export(
    result: Result,
    program: torch.export.ExportedProgram,
    given: list[Inputs],
    found: list[list[torch.Tensor]],
    expected: list[list[torch.Tensor]],
) -> None:
    """Raises ExportDiffers if the program that torch.export made differs from the model on the CPU already."""
    module = program.module()
    on_cpu = [[x.clone() for x in tensors(module(**some))] for some in given]
    errors = [difference(a, b) for some, right in zip(on_cpu, expected) for a, b in zip(some, right)]
    if max(errors, default=0.0) > TOLERANCE:
        check(result, found, on_cpu)
        result.exporter, result.error, result.stage = "", 0.0, "export"
        raise ExportDiffers(f"the exported program differs from the model on the CPU by {max(errors):.1e}")


def check_inputs(expected: list[list[torch.Tensor]]) -> None:
    """Raises ValueError if outputs on the CPU say nothing about a model."""
    floating = [x for x in expected[0] if x.is_floating_point()]
    if not all(x.isfinite().any() for x in floating if x.numel()):
        raise ValueError("an output on the CPU has no finite value")
    if all(difference(a, b) < DEPENDENCE for a, b in zip(*expected, strict=True)):
        raise InputsVanish("the outputs do not depend on the inputs")


def allowed(module: nn.Module, several: list[Inputs], expected: list[list[torch.Tensor]]) -> list[list[float]]:
    """The difference that each output may have: twice what float32 costs it on the CPU, measured against float64,
    within TOLERANCE and ROUNDING. Some outputs magnify the rounding of what they are computed from."""
    exact = copy.deepcopy(module).double()
    found: list[list[float]] = []
    for some, right in zip(several, expected, strict=True):
        wide = {name: x.double() if is_floating(x) else x for name, x in some.items()}
        try:
            costs = [difference(a.to(b.dtype), b) for a, b in zip(tensors(exact(**wide)), right, strict=True)]
        except RuntimeError:  # a model that names float32 itself
            costs = [0.0] * len(right)
        found.append([min(ROUNDING, max(TOLERANCE, 2 * cost)) for cost in costs])
    return found


def is_floating(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and x.is_floating_point()


def check(
    result: Result,
    found: list[list[torch.Tensor]],
    expected: list[list[torch.Tensor]],
    most: list[list[float]] | None = None,
) -> None:
    """Raises ValueError if outputs differ from those on the CPU. most: the difference that each may have."""
    limits = most or [[TOLERANCE] * len(right) for right in expected]
    for mine, right, limit in zip(found, expected, limits, strict=True):
        if len(mine) != len(right):
            raise ValueError(f"{len(mine)} outputs, expected {len(right)}")
        errors = [difference(a.cpu(), b) for a, b in zip(mine, right)]
        result.error = max([result.error, *errors])
        if any(error > bound for error, bound in zip(errors, limit, strict=True)):
            raise ValueError(f"differences of the outputs: {', '.join(f'{x:.1e}' for x in errors)}"[:300])


def read(path: Path) -> Result:
    return Result(**json.loads(path.read_text()))


def load() -> dict[str, Result]:
    return {path.stem: read(path) for path in sorted(KEPT.glob("*.json"))}


def store(result: Result) -> None:
    path = KEPT / f"{result.model_type}.json"
    path.with_suffix(".new").write_text(json.dumps(asdict(result), indent=1))
    path.with_suffix(".new").replace(path)
