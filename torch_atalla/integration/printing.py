# SPDX-License-Identifier: BSD-3-Clause
"""repr() of atalla tensors.

torch formats a tensor with dozens of small ops on its own device. Upstream reads tensors of xla, mps and other
devices back first and formats them on the CPU, by a list of device names that PrivateUse1 cannot join: so the same is
done here.
"""

from __future__ import annotations

from functools import wraps
from typing import Any

import torch
from torch import _tensor_str


def install() -> None:
    original = _tensor_str._tensor_str

    @wraps(original)
    def format_on_cpu(self: torch.Tensor, *args: Any, **kwargs: Any) -> str:
        return original(self.cpu() if self.device.type == "atalla" else self, *args, **kwargs)

    _tensor_str._tensor_str = format_on_cpu
