# SPDX-License-Identifier: BSD-3-Clause
"""Random sequences of steps. A number determines the sequence on every machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import torch

from . import arguments
from .ambient import Ambient, draw
from .functions import FUNCTIONS, Function

MODES = ("default",) * 5 + ("reduce-overhead",) * 4 + ("max-autotune", "max-autotune-no-cudagraphs")
STEPS = ("call",) * 8 + ("streams", "threads", "capture", "loadable")


@dataclass(frozen=True)
class Step:
    """One step: `call` (several times with other values), `streams` and `threads` (calls that overlap), `capture`
    (a device graph of the function itself), `loadable` (saved and loaded) or `reset` (of Dynamo)."""

    kind: str
    function: str = ""
    texts: tuple[str, ...] = ()  # of the arguments
    grads: tuple[bool, ...] = ()  # which arguments require gradients
    ambient: Ambient = field(default_factory=Ambient)
    seed: int = 0
    times: int = 1
    mode: str = "default"
    options: str = ""  # value of the option `optimize`; "": the default backend
    dynamic: bool | None = None

    def build(self, time: int = 0) -> list[Any]:
        return arguments.build(self.texts, f"atalla:{self.ambient.device}", self.seed + time, self.grads)

    def compiled(self) -> Callable[..., Any]:
        key = self.function, self.mode, self.options, self.dynamic
        if key not in _COMPILED:
            call = FUNCTIONS[self.function].call
            if self.options:
                options: dict[str, Any] = {"optimize": self.options}
                _COMPILED[key] = torch.compile(call, backend="atalla", dynamic=self.dynamic, options=options)
            else:
                _COMPILED[key] = torch.compile(call, mode=self.mode, dynamic=self.dynamic)
        return _COMPILED[key]


_COMPILED: dict[Any, Callable[..., Any]] = {}


def sequence(number: int) -> list[Step]:
    rng = Random(f"sequence {number}")
    pool = [FUNCTIONS[name] for name in rng.sample(sorted(FUNCTIONS), 2)]
    ambient, steps = Ambient(), [Step("reset")] if rng.random() < 0.6 else []
    calls: dict[str, Step] = {}
    while len(steps) < 7:
        if rng.random() < 0.2:
            steps.append(Step("reset"))
            continue
        ambient = draw(rng, ambient)
        function = rng.choice(pool)
        step = _step(function, rng, ambient)
        if function.name in calls and rng.random() < 0.6:  # the arguments of an earlier step
            earlier = calls[function.name]
            step = replace(step, texts=_other_numbers(earlier.texts, function, rng), grads=earlier.grads)
        calls[function.name] = step
        steps.append(step)
    return steps


def _step(function: Function, rng: Random, ambient: Ambient) -> Step:
    kind = rng.choice(STEPS)
    if kind == "threads" and function.random or kind in ("streams", "threads", "capture") and function.updates:
        kind = "call"
    if kind in ("capture", "loadable", "threads"):
        ambient = replace(ambient, grad_mode="no_grad", thread=False)
    return Step(
        kind,
        function.name,
        tuple(arguments.expressions(function.kinds, rng)),
        tuple(rng.random() < 0.3 for _ in function.kinds),
        ambient,
        rng.randrange(1 << 30),
        rng.choice((1, 2, 3, 4)) if kind == "call" else 3,
        rng.choice(MODES),
        rng.choice(("", "", "", "", "", "exact", "none")),
        rng.choice((None, None, None, True, False)),
    )


def _other_numbers(texts: Sequence[str], function: Function, rng: Random) -> tuple[str, ...]:
    """The same tensors; numbers may differ."""
    fresh = arguments.expressions(function.kinds, rng)
    return tuple(
        new if kind in ("int", "size", "float", "flag") and rng.random() < 0.7 else old
        for kind, old, new in zip(function.kinds, texts, fresh)
    )
