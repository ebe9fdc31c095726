# SPDX-License-Identifier: BSD-3-Clause
"""Memory statistics of the caching allocator. All sizes are bytes of simulated DRAM."""

from __future__ import annotations

from typing import Any

import torch


def _index(device: Any) -> int:
    from .device import _index as index

    return index(device)


def empty_cache() -> None:
    torch.accelerator.empty_cache()


def memory_stats(device: Any = None) -> dict[str, Any]:
    """Counters with torch.cuda.memory_stats' keys ("allocated_bytes.all.peak", ...)."""
    return dict(torch.accelerator.memory_stats(_index(device)))


def memory_allocated(device: Any = None) -> int:
    return torch.accelerator.memory_allocated(_index(device))


def max_memory_allocated(device: Any = None) -> int:
    return torch.accelerator.max_memory_allocated(_index(device))


def memory_reserved(device: Any = None) -> int:
    return torch.accelerator.memory_reserved(_index(device))


def max_memory_reserved(device: Any = None) -> int:
    return torch.accelerator.max_memory_reserved(_index(device))


def reset_peak_memory_stats(device: Any = None) -> None:
    torch.accelerator.reset_peak_memory_stats(_index(device))


def reset_accumulated_memory_stats(device: Any = None) -> None:
    torch.accelerator.reset_accumulated_memory_stats(_index(device))


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """(free, total) of the device's DRAM."""
    return torch.accelerator.get_memory_info(_index(device))
