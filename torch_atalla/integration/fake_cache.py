# SPDX-License-Identifier: BSD-3-Clause
"""The cache of FakeTensor's dispatch: a call with the device "atalla" depends on the current device."""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode


def install() -> None:
    """Add the current device to the keys of calls that name a device without an ordinal.

    Upstream's keys have the device as it was given: the cache would return tensors of an earlier current device.
    """
    upstream = FakeTensorMode._prep_args_for_hash

    def prepare(self: FakeTensorMode, result: list[object], args: Any, *rest: Any) -> None:
        start = len(result)
        upstream(self, result, args, *rest)
        for item in result[start:]:
            if isinstance(item, torch.device) and item.type == "atalla" and item.index is None:
                result.append(torch.accelerator.current_device_index())
                return

    FakeTensorMode._prep_args_for_hash = prepare  # type: ignore[method-assign,assignment]
