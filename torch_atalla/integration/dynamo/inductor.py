# SPDX-License-Identifier: BSD-3-Clause
"""Clear error for AOTInductor: Inductor has no code generator for the device.

torch.compile does not reach this code: default.py passes its graphs to the backend `atalla`. This module is imported
when torch._inductor.codegen.common is imported (see __init__.py).
"""

from __future__ import annotations

from typing import Any, NoReturn

from torch._inductor.codegen.common import DeviceOpOverrides, register_backend_for_device, register_device_op_overrides


def _refuse(*_: Any, **__: Any) -> NoReturn:
    raise NotImplementedError(
        "Inductor has no code generator for the atalla device: torch.compile compiles with the backend atalla, and "
        "torch_atalla.save_loadable compiles programs ahead of time"
    )


class _Scheduling:
    __new__ = staticmethod(_refuse)


class _Wrapper:
    supports_caching = False
    create = staticmethod(_refuse)


def register() -> None:
    register_device_op_overrides("atalla", DeviceOpOverrides())
    register_backend_for_device("atalla", _Scheduling, _Wrapper, _Wrapper, _Wrapper)  # type: ignore[arg-type]
