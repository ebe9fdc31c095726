# SPDX-License-Identifier: BSD-3-Clause
"""Tells Inductor's code generators, which AOTInductor asks, that they have none for the chip, in clear words.

torch.compile does not get here: default.py gives its graphs to the backend `atalla`. Imported when
torch._inductor.codegen.common is (see __init__.py).
"""

from __future__ import annotations

from typing import Any, NoReturn

from torch._inductor.codegen.common import DeviceOpOverrides, register_backend_for_device, register_device_op_overrides


def _refuse(*_: Any, **__: Any) -> NoReturn:
    raise NotImplementedError(
        "Inductor has no code generator for the atalla device: torch.compile compiles with the backend atalla, and "
        "torch_atalla.save_loadable compiles programs ahead of time"
    )


class _Wrapper:
    supports_caching = False
    create = staticmethod(_refuse)


def register() -> None:
    register_device_op_overrides("atalla", DeviceOpOverrides())
    register_backend_for_device("atalla", _refuse, _Wrapper, _Wrapper, _Wrapper)  # type: ignore[arg-type]
