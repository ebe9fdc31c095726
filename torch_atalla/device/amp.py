# SPDX-License-Identifier: BSD-3-Clause
"""`torch.atalla.amp`: torch.amp with the device filled in, under torch.cuda.amp's names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]


def autocast(
    enabled: bool = True, dtype: torch.dtype = torch.float16, cache_enabled: bool = True
) -> torch.amp.autocast_mode.autocast:
    """`torch.autocast("atalla", ...)`: context manager and decorator."""
    return torch.amp.autocast_mode.autocast("atalla", dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)


class GradScaler(torch.amp.GradScaler):
    """`torch.amp.GradScaler("atalla", ...)`."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        super().__init__("atalla", init_scale, growth_factor, backoff_factor, growth_interval, enabled)


def custom_fwd(fwd: Callable[..., Any] | None = None, *, cast_inputs: torch.dtype | None = None) -> Any:
    """`torch.amp.custom_fwd(..., device_type="atalla")`."""
    return torch.amp.custom_fwd(fwd, device_type="atalla", cast_inputs=cast_inputs)


def custom_bwd(bwd: Callable[..., Any] | None = None) -> Any:
    """`torch.amp.custom_bwd(..., device_type="atalla")`."""
    if bwd is None:
        return custom_bwd
    return torch.amp.custom_bwd(bwd, device_type="atalla")
