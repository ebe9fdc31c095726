# SPDX-License-Identifier: BSD-3-Clause
"""Finding the places where the host waits for the device."""

from __future__ import annotations

from torch_atalla.driver.extension import _C

__all__ = ["get_sync_debug_mode", "set_sync_debug_mode"]

_MODES = {"default": 0, "warn": 1, "error": 2}


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """Set how calls that make the host wait behave in this process: 0 "default", 1 "warn", 2 "error" (raise).

    Such calls are item() and whatever depends on values (nonzero, masks as indices), copies to the host
    that are not `non_blocking`, the fallback, and a stream's synchronize. Waiting that a program asks for by
    torch.atalla.synchronize or Event.synchronize stays silent.
    """
    if isinstance(debug_mode, str):
        if debug_mode not in _MODES:
            raise RuntimeError("invalid value of debug_mode, expected one of `default`, `warn`, `error`")
        debug_mode = _MODES[debug_mode]
    if debug_mode not in _MODES.values():
        raise RuntimeError("invalid value of debug_mode, expected one of 0,1,2")
    _C.set_sync_debug_mode(debug_mode)


def get_sync_debug_mode() -> int:
    """0, 1 or 2; see set_sync_debug_mode."""
    return _C.get_sync_debug_mode()
