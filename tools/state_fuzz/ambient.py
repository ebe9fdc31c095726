# SPDX-License-Identifier: BSD-3-Clause
"""The ambient state of a call: all that is not an argument and that a program may depend on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from random import Random

import torch
from torch._functorch import config

from torch_atalla.device import namespace as atalla

GRAD_MODES = {"grad": torch.enable_grad, "no_grad": torch.no_grad, "inference": torch.inference_mode}


@dataclass(frozen=True)
class Ambient:
    device: int = 0  # of the tensors
    current: int = 0  # device
    stream: bool = False  # a stream other than the default one
    thread: bool = False  # a thread other than the main one
    default_dtype: torch.dtype = torch.float32
    grad_mode: str = "no_grad"
    autocast: torch.dtype | None = None
    deterministic: bool = False
    memory_budget: float = 1.0  # of activations: a compiled backward pass recomputes the others

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Make it the state of the process and of the calling thread."""
        before, deterministic = torch.get_default_dtype(), torch.are_deterministic_algorithms_enabled()
        with ExitStack() as stack:
            stack.callback(torch.set_default_dtype, before)
            stack.callback(torch.use_deterministic_algorithms, deterministic)
            torch.set_default_dtype(self.default_dtype)
            torch.use_deterministic_algorithms(self.deterministic, warn_only=True)
            stack.enter_context(config.patch(activation_memory_budget=self.memory_budget))
            stack.enter_context(self.in_thread())
            yield

    @contextmanager
    def in_thread(self) -> Iterator[None]:
        """Make its parts that each thread has for itself the state of the calling thread."""
        with ExitStack() as stack:
            if self.stream:
                stack.enter_context(stream_of(self.device))
            stack.enter_context(atalla.device(self.current))
            stack.enter_context(GRAD_MODES[self.grad_mode]())
            if self.autocast is not None:
                stack.enter_context(torch.autocast("atalla", self.autocast))
            yield


@cache
def stream_of(device: int, use: str = "calls") -> torch.Stream:
    """The stream of a device for this use."""
    return torch.Stream(device=torch.device("atalla", device))


def draw(rng: Random, before: Ambient) -> Ambient:
    """Return a state near another one."""

    def kept(value, share, *others):
        return rng.choice(others) if rng.random() < share else value

    return Ambient(
        device=kept(before.device, 0.3, 0, 1),
        current=kept(before.current, 0.3, 0, 1),
        stream=kept(before.stream, 0.2, True, False),
        thread=rng.random() < 0.1,
        default_dtype=kept(before.default_dtype, 0.15, torch.float32, torch.float32, torch.float64, torch.bfloat16),
        grad_mode=kept(before.grad_mode, 0.35, "grad", "no_grad", "inference"),
        autocast=kept(before.autocast, 0.15, None, None, torch.bfloat16, torch.float16),
        deterministic=kept(before.deterministic, 0.1, False, True),
        memory_budget=kept(before.memory_budget, 0.2, 1.0, 1.0, 0.5, 0.1, 0.0),
    )
