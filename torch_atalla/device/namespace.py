# SPDX-License-Identifier: BSD-3-Clause
"""`torch.atalla`: the device module, with torch.cuda's names wherever the concept exists: docs/reference/cuda-names.md.

It only gathers: each topic is a module of this package, which lists its public names in `__all__`.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import torch

from . import (
    amp,
    comm,
    devices,
    graphed_callables,
    graphs,
    legacy_types,
    lifecycle,
    memory,
    nvtx,
    properties,
    random,
    sampling,
    storage,
    streams,
)  # fmt: skip
from .devices import *  # noqa: F403
from .devices import _DeviceGuard, _exchange_device, _maybe_exchange_device  # noqa: F401
from .graphed_callables import *  # noqa: F403
from .graphs import *  # noqa: F403
from .index import device_index as _get_device_index
from .legacy_types import *  # noqa: F403
from .lifecycle import *  # noqa: F403
from .lifecycle import _is_in_bad_fork, _lazy_call, _lazy_init  # noqa: F401
from .memory import *  # noqa: F403
from .properties import *  # noqa: F403
from .random import *  # noqa: F403
from .sampling import *  # noqa: F403
from .storage import *  # noqa: F403
from .streams import *  # noqa: F403

_TOPICS: tuple[ModuleType, ...] = (
    devices, graphed_callables, graphs, legacy_types, lifecycle, memory, properties, random, sampling, storage, streams,
)  # fmt: skip
# Those of torch.cuda, which scripts import by name.
_SUBMODULES: tuple[ModuleType, ...] = (amp, comm, graphs, memory, nvtx, random, streams)

vars(graphs).setdefault("make_graphed_callables", graphed_callables.make_graphed_callables)  # torch.cuda's place for it

OutOfMemoryError = torch.OutOfMemoryError
AcceleratorError = torch.AcceleratorError

__all__ = ["AcceleratorError", "OutOfMemoryError", "default_generators"]  # noqa: F405, F822
__all__ += [module.__name__.rpartition(".")[2] for module in _SUBMODULES]
__all__ += [name for topic in _TOPICS for name in topic.__all__]

_index = _get_device_index


def __getattr__(name: str) -> Any:
    if name == "default_generators":  # not at import: it asks the driver for the number of devices
        return random._default_generators()
    raise AttributeError(f"module 'torch.atalla' has no attribute '{name}'")


class _utils:
    """Functions that torch calls on a device module under this name."""

    _get_device_index = staticmethod(_get_device_index)


def _alias_submodules() -> None:
    """Makes `from torch.atalla.amp import autocast` work: torch.atalla is a module and not a package."""
    for module in _SUBMODULES:
        sys.modules[f"torch.atalla.{module.__name__.rpartition('.')[2]}"] = module
