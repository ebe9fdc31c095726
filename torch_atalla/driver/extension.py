# SPDX-License-Identifier: BSD-3-Clause
"""The C++ extension, imported after PrivateUse1 has its name: it registers the kernels of `atalla`."""

import torch

torch.utils.rename_privateuse1_backend("atalla")

from torch_atalla import _C  # noqa: E402

__all__ = ["_C"]
