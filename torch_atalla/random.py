# SPDX-License-Identifier: BSD-3-Clause
"""Seeds and states of the devices' Philox generators."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import torch


@lru_cache(maxsize=1)
def _default_generators() -> tuple[torch.Generator, ...]:
    from . import _C

    return tuple(_C.default_generator(i) for i in range(_C.device_count()))


def _generator(device: Any = None) -> torch.Generator:
    from .device import _index

    return _default_generators()[_index(device)]


def _count() -> int:
    from . import _C

    return _C.device_count()


def get_rng_state(device: Any = "atalla") -> torch.Tensor:
    """16 bytes (uint8, CPU): the seed and the offset, each 64 bits."""
    return _generator(device).get_state()


def set_rng_state(new_state: torch.Tensor, device: Any = "atalla") -> None:
    _generator(device).set_state(new_state.cpu())


def get_rng_state_all() -> list[torch.Tensor]:
    return [get_rng_state(i) for i in range(_count())]


def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
    for i, state in enumerate(new_states):
        set_rng_state(state, i)


def manual_seed(seed: int) -> None:
    """Seeds the current device's generator."""
    _generator().manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    for i in range(_count()):
        _generator(i).manual_seed(int(seed))


def seed() -> None:
    _generator().seed()


def seed_all() -> None:
    value = torch.Generator().seed()
    manual_seed_all(value)


def initial_seed() -> int:
    return _generator().initial_seed()
