# SPDX-License-Identifier: BSD-3-Clause
"""Helpers of torch.testing that upstream's test files import and a later torch no longer has, for the device's tests.

Both are about reduced precision of float32 products on other devices, which the device and the CPU's tests do not have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.testing._internal import common_cuda, common_mkldnn


def tf32_is_not_fp32() -> bool:
    return False


def bf32_on_and_off(bf32_precision: float = 1e-5) -> Callable[[Any], Any]:
    return lambda test: test


def restore() -> None:
    """Put the helpers into the modules that lack them."""
    for module, helper in ((common_cuda, tf32_is_not_fp32), (common_mkldnn, bf32_on_and_off)):
        if not hasattr(module, helper.__name__):
            setattr(module, helper.__name__, helper)
