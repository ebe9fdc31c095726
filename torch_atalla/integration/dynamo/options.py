# SPDX-License-Identifier: BSD-3-Clause
"""Options and modes of the torch.compile backend `atalla`; docs/guides/compile.md describes them for users."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from torch_atalla.compiler.targets.functional.pipeline import LEVELS
from torch_atalla.compiler.targets.functional.pipeline import Options as PipelineOptions

_CHOICES: dict[str, tuple[Any, ...]] = {"optimize": LEVELS, "fallback": ("eager", "error")}


@dataclass(frozen=True)
class CompileOptions:
    """Options of the backend.

    optimize: "none" launches the same kernels as eager mode, "exact" fuses launches if results stay bitwise equal, and
        "fast" also if rounding changes.
    fallback: "eager" runs nodes without a lowering one by one; "error" raises an error instead.
    replay: capture inference graphs as device graphs.
    search: compile several programs per region and use the one with the fewest simulated cycles.
    """

    optimize: str = "exact"
    fallback: str = "eager"
    replay: bool = False
    search: bool = False

    def candidates(self) -> list[PipelineOptions]:
        """Return the ways to compile a region. With `search` there are several, and the best program is used."""
        first = PipelineOptions(fallback="error", optimize=self.optimize)
        return [first, replace(first, optimize="none")] if self.search else [first]


MODES: dict[str, dict[str, Any]] = {
    "default": {},
    "reduce-overhead": {"replay": True},
    "max-autotune": {"search": True, "replay": True},
    "max-autotune-no-cudagraphs": {"search": True},
}


def read_options(mode: str | None, options: Mapping[str, Any] | None) -> CompileOptions:
    """Read mode and options. Raises RuntimeError for an unknown mode or option, as torch.compile does for Inductor."""
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
