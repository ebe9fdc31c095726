# SPDX-License-Identifier: BSD-3-Clause
"""`torch_atalla.explore`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, product
from math import prod
from pathlib import Path
from typing import Any, Literal

import torch

from torch_atalla import chip

from .evaluate import VariantError, evaluate
from .networks import Network
from .page import number, page
from .space import Constraint, Variant, checked

MEASURES = ("cycles", "seconds", "joules", "area", "error")  # all to be small
Program = torch.nn.Module | torch.export.ExportedProgram | str | os.PathLike[str]


def explore(
    programs: Program | Mapping[str, Program],
    vary: Mapping[str, Iterable[Any]],
    *,
    args: tuple[Any, ...] | None = None,
    objective: Sequence[str] = ("cycles",),
    search: Literal["grid", "random", "bayes"] = "grid",
    trials: int | None = None,
    constraints: Sequence[str] = (),
    folder: str | os.PathLike[str] = "study",
    jobs: int = 2,
    seed: int = 0,
    progress: bool = True,
) -> Study:
    """Runs networks on variants of the chip, and writes the results into a folder, as they come.

    Args:
        programs: a module, an exported program, the path of a program written by `torch.export.save` (.pt2), or the
            path of a loadable (.atl); or several by name. All but loadables are compiled for each variant.
        vary: values by parameter: those of the chip file ("array.rows": [16, 32]; `python -m torch_atalla info` prints
            them), and "compile.optimize", "compile.weights" and "compile.engine", options of save_loadable. With the
            engine "isa", the default, programs are converted to bfloat16, and cycles are those of their Atalla code on
            the variant. With "functional", the default where weights vary, and for loadables without code, they are a
            bound from below: the chip at its full rates ("roofline").
        args: example inputs of a module.
        objective: what is to be small: "cycles", "seconds" of simulated time, "joules", "area" of the chip in mm2,
            "error" against the CPU's results. Of several networks, cycles, seconds and joules are added up, and the
            largest error counts.
        search: "grid" takes every combination, "random" draws them, "bayes" learns where the good ones are (TPE).
        trials: how many variants; by default all combinations, or 64 of them if the search is no grid.
        constraints: bounds of parameters or objectives: "cycles<=200000", "array.rows>=16". Variants beyond a bound of
            a parameter are not run.
        folder: for the programs, the chip file and study.db (SQLite, readable by Optuna). A study that is there is
            continued: the variants that it has are not run again. On a cluster, all workers must see the folder.
        jobs: processes at a time. Another backend of joblib that is active (`joblib.parallel_config("dask")`) runs
            them elsewhere.
        seed: of the search.
        progress: show a bar.

    Returns the study, with all variants that it has. Raises ValueError for what cannot vary, ImportError without the
    extra "explore" (optuna, plotly, joblib).
    """
    try:
        import optuna
    except ImportError as error:
        raise ImportError(f"{error}; expected the extra of torch_atalla: pip install 'torch_atalla[explore]'") from None
    default = chip.config_text()
    space, bounds = checked(vary, default), [Constraint.parse(text) for text in constraints]
    unknown = [name for name in objective if name not in MEASURES]
    if unknown or not objective:
        raise ValueError(f"objective: expected some of {', '.join(MEASURES)}, got {list(objective)}")
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    networks = _networks(programs, args, place)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(
        study_name="explore",
        storage=f"sqlite:///{place / 'study.db'}",
        sampler=_sampler(optuna, search, seed, bounds),
        directions=["minimize"] * len(objective),
        load_if_exists=True,
    )
    _same_study(study, {"objective": list(objective), "space": space, "networks": [n.name for n in networks]})
    count = prod(map(len, space.values())) if search == "grid" else 64
    missing = max(0, (count if trials is None else min(trials, count)) - _finished(study))
    asked = islice(_combinations(study, space) if search == "grid" else _drawn(study, space), missing)
    run = _Run(study, networks, default, list(objective), bounds)
    run.all(asked, missing, jobs, learns=search == "bayes", progress=progress)
    return Study.of(study)


def _finished(study: Any) -> int:
    return sum(trial.state.is_finished() for trial in study.trials)


def _sampler(optuna: Any, search: str, seed: int, bounds: list[Constraint]) -> Any:
    samplers = optuna.samplers
    if search in ("grid", "random"):
        return samplers.RandomSampler(seed=seed)
    if search == "bayes":
        beyond = (lambda trial: trial.user_attrs.get("excess", [0.0])) if bounds else None
        return samplers.TPESampler(seed=seed, multivariate=True, constant_liar=True, constraints_func=beyond)
    raise ValueError(f'search: expected "grid", "random" or "bayes", got {search!r}')


def _same_study(study: Any, wanted: dict[str, Any]) -> None:
    known = study.user_attrs
    for name, value in wanted.items():
        if name in known and known[name] != value:
            raise ValueError(f"the folder has a study with another {name}, {known[name]}; expected a new folder")
        study.set_user_attr(name, value)


def _networks(programs: Program | Mapping[str, Program], args: tuple[Any, ...] | None, place: Path) -> list[Network]:
    if not isinstance(programs, Mapping):
        programs = {Path(programs).stem if isinstance(programs, (str, os.PathLike)) else "network": programs}
    found = []
    for name, program in programs.items():
        if isinstance(program, (str, os.PathLike)):
            path = Path(program)
            if path.suffix not in (".pt2", ".atl") or not path.is_file():
                raise ValueError(f"{path}: expected an existing .pt2 or .atl file")
        else:
            path = place / f"{name}.pt2"
            exported = torch.export.export(program, args) if isinstance(program, torch.nn.Module) else program  # type: ignore[arg-type]
            torch.export.save(exported, path)
        found.append(Network(name, str(path.resolve())))
    return found


def _drawn(study: Any, space: dict[str, list[Any]]) -> Iterator[tuple[Any, Variant]]:
    while True:
        trial = study.ask()
        yield trial, Variant({key: trial.suggest_categorical(key, values) for key, values in space.items()})


def _combinations(study: Any, space: dict[str, list[Any]]) -> Iterator[tuple[Any, Variant]]:
    """Those that the study does not have."""
    known = [trial.params for trial in study.trials if trial.state.is_finished()]
    for values in product(*space.values()):
        wanted = dict(zip(space, values))
        if wanted not in known:
            study.enqueue_trial(wanted)
            yield next(_drawn(study, space))


@dataclass
class _Run:
    study: Any
    networks: list[Network]
    default: str
    objective: list[str]
    bounds: list[Constraint]

    def all(self, asked: Iterable[Any], count: int, jobs: int, learns: bool, progress: bool) -> None:
        """Runs the variants; in small parts if the search learns from what it knows."""
        import joblib
        from tqdm import tqdm

        asked = iter(asked)
        with tqdm(total=count, disable=not progress, unit="variant") as bar:
            while part := list(islice(asked, jobs if learns else count)):
                calls = [joblib.delayed(measured)(i, self.networks, self.default, v) for i, (_, v) in enumerate(part)]
                for i, found in joblib.Parallel(n_jobs=jobs, return_as="generator_unordered")(
                    [call for call, (_, variant) in zip(calls, part) if not self.excluded(*part[call[1][0]])]
                ):
                    trial, variant = part[i]
                    self.tell(trial, variant, found)
                    bar.update()
                bar.n = bar.total if not learns else bar.n
                bar.refresh()

    def excluded(self, trial: Any, variant: Variant) -> bool:
        """Whether a bound of a parameter leaves the variant out; then the study is told."""
        import optuna

        beyond = [str(bound) for bound in self.bounds if (bound.excess(variant.values) or 0.0) > 0]
        if beyond:
            trial.set_user_attr("refused", f"constraint {beyond[0]}")
            self.study.tell(trial, state=optuna.trial.TrialState.PRUNED)
        return bool(beyond)

    def tell(self, trial: Any, variant: Variant, found: dict[str, dict[str, float]] | str) -> None:
        import optuna

        if isinstance(found, str):
            trial.set_user_attr("refused", found)
            self.study.tell(trial, state=optuna.trial.TrialState.FAIL)
            return
        total = totals(found)
        missing = [name for name in self.objective if name not in total]
        if missing:
            raise ValueError(f"{variant}: nothing measures {missing[0]!r} of a loadable; expected a .pt2 file")
        excess = [bound.excess({**variant.values, **total}) or 0.0 for bound in self.bounds]
        trial.set_user_attr("measured", found)
        trial.set_user_attr("excess", excess)
        self.study.tell(trial, [total[name] for name in self.objective])


def measured(
    number: int, networks: list[Network], default: str, variant: Variant
) -> tuple[int, dict[str, dict[str, float]] | str]:
    """In a worker: what `evaluate` gives, or why the simulator refuses the variant."""
    try:
        return number, evaluate(networks, default, variant)
    except VariantError as error:
        return number, str(error)


def totals(found: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Of all networks: sums, the chip's area, and the largest error."""
    combine: dict[str, Callable[[Iterable[float]], float]] = {"error": max, "area": max}
    names = set.intersection(*(set(numbers) for numbers in found.values()))
    return {name: combine.get(name, sum)([numbers[name] for numbers in found.values()]) for name in sorted(names)}


@dataclass
class Point:
    """A variant with what was measured, or why it was refused."""

    values: dict[str, Any]
    measured: dict[str, dict[str, float]] = field(default_factory=dict)  # by network
    refused: str = ""
    beyond: bool = False  # of a constraint

    @property
    def totals(self) -> dict[str, float]:
        return totals(self.measured)


@dataclass
class Study:
    """All variants of a study."""

    space: dict[str, list[Any]]
    objective: list[str]
    networks: list[str]
    points: list[Point]

    @staticmethod
    def of(study: Any) -> Study:
        """Of a study of Optuna that `explore` made."""
        points = []
        for trial in study.trials:
            known = trial.user_attrs
            if trial.state.is_finished() and trial.params:
                beyond = any(excess > 0 for excess in known.get("excess", ()))
                points.append(Point(dict(trial.params), known.get("measured", {}), known.get("refused", ""), beyond))
        return Study(study.user_attrs["space"], study.user_attrs["objective"], study.user_attrs["networks"], points)

    @property
    def feasible(self) -> list[Point]:
        return [point for point in self.points if point.measured and not point.beyond]

    def front(self) -> list[Point]:
        """The variants that no other one beats in every objective (Pareto), sorted by the first."""
        rows = [(tuple(point.totals[name] for name in self.objective), point) for point in self.feasible]
        best = [
            (row, point)
            for row, point in rows
            if not any(other != row and all(a <= b for a, b in zip(other, row)) for other, _ in rows)
        ]
        return [point for _, point in sorted(best, key=lambda pair: pair[0])]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes one HTML page with the Pareto front, parallel coordinates and the effect of each parameter."""
        Path(path).write_text(page(self), encoding="utf-8")

    def _repr_html_(self) -> str:
        return page(self, whole=False)

    def __str__(self) -> str:
        lines = [f"{len(self.points)} variants, {len(self.feasible)} within the constraints"]
        for point in self.front()[:10]:
            numbers = ", ".join(f"{name} {number(point.totals[name])}" for name in self.objective)
            lines.append(f"{numbers}: {Variant(point.values)}")
        refused = [point for point in self.points if point.refused]
        lines += [f"refused: {Variant(point.values)}: {point.refused}" for point in refused[:3]]
        return "\n".join(lines)
