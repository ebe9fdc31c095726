# SPDX-License-Identifier: BSD-3-Clause
"""Triton: torch.compile captures its kernels where `torch.utils._triton.has_triton` finds a device for them.

Upstream lists the devices by name, and has no way to add one.
"""

from __future__ import annotations

import functools
from types import ModuleType

from torch.utils import _triton as upstream


def _adapt(backends: ModuleType) -> None:
    original = upstream.has_triton

    @functools.cache
    def has_triton(**options: bool) -> bool:  # torch 2.15 has include_cpu
        return bool(original(**options)) or "atalla" in backends.backends

    upstream.has_triton = has_triton


ADAPTED = {"triton.backends": _adapt}
