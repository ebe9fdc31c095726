# SPDX-License-Identifier: BSD-3-Clause
"""torch.distributed backend `accl` for atalla tensors: Gloo's collectives, in place on device memory.

    dist.init_process_group("accl")                    # "accl" is the default of device type "atalla"
    dist.init_process_group("cpu:gloo,atalla:accl")    # also for CPU tensors

docs/guides/distributed.md describes how it works and which dtypes each collective supports.
"""

from __future__ import annotations

import copy
import os
from typing import Any

import torch.distributed as dist

from .driver.extension import _C

__all__ = ["BACKEND", "Options", "is_available"]

BACKEND = "accl"


def is_available() -> bool:
    """Return whether this build of PyTorch has torch.distributed with Gloo, which the backend requires."""
    return dist.is_available() and dist.is_gloo_available()


def register() -> None:
    """Register `accl` with torch.distributed as the default backend of device type `atalla`."""
    if is_available() and BACKEND not in dist.Backend.backend_list:
        dist.Backend.register_backend(BACKEND, _create, extended_api=True, devices=["atalla"])


def Options(*, blocking_wait: bool | None = None) -> Any:
    """Create the options of an `accl` group, for `pg_options` of `init_process_group`, `new_group` and `split_group`.

    Args:
        blocking_wait: True makes `Work.wait()` return when the collective is complete, or raise the error that made it
            fail. False makes the current stream wait, and the device's next synchronisation raises the error. The
            default None uses `TORCH_ATALLA_BLOCKING_WAIT` (`1` for True; `0` or unset for False).

    Raises ValueError for another value of the variable.
    """
    _C.bind_collective_classes()
    options = _C.CollectiveOptions()
    if blocking_wait is None:
        text = os.environ.get("TORCH_ATALLA_BLOCKING_WAIT") or "0"
        if text not in ("0", "1"):
            raise ValueError(f"TORCH_ATALLA_BLOCKING_WAIT: expected 0 or 1, got {text!r}")
        blocking_wait = text == "1"
    options.blocking_wait = blocking_wait
    return options


def _create(options: Any, backend_options: Any) -> Any:
    """Create the backend of one process group. `options` is a c10d::DistributedBackendOptions."""
    _C.bind_collective_classes()
    gloo_options = getattr(dist.ProcessGroupGloo, "_Options")  # noqa: B009  (not in the stubs)
    if not isinstance(backend_options, (type(None), _C.CollectiveOptions, gloo_options)):
        raise TypeError(
            f"Expected backend_options argument to be of type torch_atalla.distributed.Options, "
            f"got {type(backend_options)}"
        )
    made = copy.copy(backend_options) if isinstance(backend_options, _C.CollectiveOptions) else Options()
    made._timeout = options.timeout
    made.global_ranks_in_group = options.global_ranks_in_group
    made.group_name = options.group_id
    gloo = _host_backend(options.store, options.group_rank, options.group_size, made, backend_options)
    return _C.make_collective_backend(gloo, made, _host_backend)


def _host_backend(store: Any, rank: int, size: int, options: Any, given: Any = None) -> Any:
    """Create the Gloo backend under an `accl` group. `given`: Gloo options, with devices that the caller chose."""
    kind = getattr(dist.ProcessGroupGloo, "_Options")  # noqa: B009
    store = dist.PrefixStore("accl", store)
    if isinstance(given, kind):
        given._timeout = options._timeout
        gloo = dist.ProcessGroupGloo(store, rank, size, given)
    else:
        gloo = dist.ProcessGroupGloo(store, rank, size, timeout=options._timeout)
    gloo.options.global_ranks_in_group = options.global_ranks_in_group
    gloo.options.group_name = options.group_name
    return gloo
