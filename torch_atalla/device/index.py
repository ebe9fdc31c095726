# SPDX-License-Identifier: BSD-3-Clause
"""Converts the ways to name a device (None, 1, "atalla:1", torch.device) to its ordinal."""

from __future__ import annotations

from typing import Any

import torch

from torch_atalla.driver.extension import _C


def device_index(device: Any = None, optional: bool = True, allow_cpu: bool = False) -> int:
    """Ordinal of a device: an int as it is, None and "atalla" as the current device, the CPU as -1 if allowed.

    Raises ValueError for another device type, and for a device without ordinal when `optional` is False.
    """
    if isinstance(device, int):
        return device
    given = None if device is None else torch.device(device)
    if given is not None and given.type != "atalla":
        if allow_cpu and given.type == "cpu":
            return -1
        raise ValueError(f"Expected an atalla device, but got: {device}")
    if given is not None and given.index is not None:
        return given.index
    if not optional:
        raise ValueError(f"Expected a torch.device with a specified index or an integer, but got:{device}")
    return _C.current_device()
