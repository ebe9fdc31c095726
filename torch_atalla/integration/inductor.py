# SPDX-License-Identifier: BSD-3-Clause
"""Tells Inductor, torch.compile's default backend, that it has no code generator for the chip, in clear words.

Imported when torch._inductor is (see dynamo.py).
"""

from __future__ import annotations

from typing import Any, NoReturn

from torch._inductor.codegen.common import DeviceOpOverrides, register_backend_for_device, register_device_op_overrides


def _refuse(*_: Any, **__: Any) -> NoReturn:
    raise NotImplementedError(
        "torch.compile: Inductor has no code generator for the atalla device. Use "
        'torch.compile(..., backend="aot_eager") or backend="eager", or torch_atalla.save_loadable for programs that '
        "are compiled ahead of time."
    )


class _Wrapper:
    supports_caching = False
    create = staticmethod(_refuse)


def register() -> None:
    register_device_op_overrides("atalla", DeviceOpOverrides())
    register_backend_for_device("atalla", _refuse, _Wrapper, _Wrapper, _Wrapper)  # type: ignore[arg-type]
