# SPDX-License-Identifier: BSD-3-Clause
"""Options and modes of the torch.compile backend `atalla`; docs/guides/compile.md describes them to users."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from torch_atalla.compiler.targets.functional.pipeline import LEVELS
from torch_atalla.compiler.targets.functional.pipeline import Options as PipelineOptions

_CHOICES: dict[str, tuple[Any, ...]] = {"optimize": LEVELS, "fallback": ("eager", "error")}


@dataclass(frozen=True)
class CompileOptions:
    """optimize: "none" launches what eager mode launches, "exact" joins launches where every bit stays, "fast" where
    rounding changes, too. fallback: "eager" runs what has no lowering node by node; "error" raises instead.
    residency: temporaries may stand in the chip's scratchpads. replay: inference graphs are captured as device graphs.
    search: of several programs for a region, the one with the fewest simulated cycles is taken.
    """

    optimize: str = "exact"
    fallback: str = "eager"
    residency: bool = True
    replay: bool = False
    search: bool = False

    def candidates(self) -> list[PipelineOptions]:
        """How a region, all of whose nodes are native, is compiled: the first way, or with `search` the best one."""
        first = PipelineOptions(fallback="error", optimize=self.optimize, residency=self.residency)
        if not self.search:
            return [first]
        thorough = replace(first, effort=_EFFORT)
        return [thorough, replace(thorough, residency=False), replace(thorough, optimize="none")]


_EFFORT = 16  # times as many rounds of the schedule's search as otherwise

MODES: dict[str, dict[str, Any]] = {
    "default": {},
    "reduce-overhead": {"replay": True},
    "max-autotune": {"search": True, "replay": True},
    "max-autotune-no-cudagraphs": {"search": True},
}


def read_options(mode: str | None, options: Mapping[str, Any] | None) -> CompileOptions:
    """Raises RuntimeError, as torch.compile does for Inductor, for a mode or an option that there is not."""
    if mode is not None and mode not in MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(MODES)}")
    chosen = dict(MODES[mode or "default"])
    known = {field.name: field for field in fields(CompileOptions)}
    for key, value in (options or {}).items():
        name = key.replace("-", "_")
        if name not in known:
            raise RuntimeError(f"Unexpected optimization option {key}, known options are {sorted(known)}")
        kind = type(known[name].default)
        if type(value) is not kind:
            raise RuntimeError(f"Unexpected type of attr {key}, got {type(value).__name__} should be {kind.__name__}")
        if value not in _CHOICES.get(name, (value,)):
            choices = ", ".join(map(repr, _CHOICES[name]))
            raise RuntimeError(f"Unexpected value of option {key}, got {value!r} should be one of {choices}")
        chosen[name] = value
    return CompileOptions(**chosen)
