# SPDX-License-Identifier: BSD-3-Clause
"""Seeds and states of the devices' Philox generators."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import torch

from torch_atalla.driver.extension import _C

from .index import device_index

__all__ = [
    "get_rng_state", "get_rng_state_all", "initial_seed", "manual_seed", "manual_seed_all", "seed", "seed_all",
    "set_rng_state", "set_rng_state_all",
]  # fmt: skip


@lru_cache(maxsize=1)
def _default_generators() -> tuple[torch.Generator, ...]:
    return tuple(_C.default_generator(i) for i in range(_count()))


def _generator(device: Any = None) -> torch.Generator:
    return _default_generators()[device_index(device)]


def _count() -> int:
    return _C.device_count()


@torch._disable_dynamo
def get_rng_state(device: Any = "atalla") -> torch.Tensor:
    """16 bytes (uint8, CPU): the seed and the offset, each 64 bits."""
    return _generator(device).get_state()


@torch._disable_dynamo
def set_rng_state(new_state: torch.Tensor, device: Any = "atalla") -> None:
    """Sets the state of a device's generator."""
    with torch._C.DisableTorchFunction():  # a mode may refuse what has no reference
        _generator(device).set_state(new_state.cpu())


def get_rng_state_all() -> list[torch.Tensor]:
    """The states of all devices' generators."""
    return [get_rng_state(i) for i in range(_count())]


def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
    """Sets the states of all devices' generators, in the order of the devices."""
    for i, state in enumerate(new_states):
        set_rng_state(state, i)


def manual_seed(seed: int) -> None:
    """Seeds the current device's generator."""
    _generator().manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Sets the seed of all devices' generators."""
    for i in range(_count()):
        _generator(i).manual_seed(int(seed))


def seed() -> None:
    """Sets the seed of the current device's generator to a random number."""
    _generator().seed()


def seed_all() -> None:
    """Sets the seed of all devices' generators to one random number."""
    value = torch.Generator().seed()
    manual_seed_all(value)


def initial_seed() -> int:
    """The seed of the current device's generator."""
    return _generator().initial_seed()
