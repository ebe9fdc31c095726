# SPDX-License-Identifier: BSD-3-Clause
"""The C++ extension, imported after PrivateUse1 has its name: it registers the kernels of `atalla`."""

import torch

from .installation import REINSTALL, build_info, explain, torch_mismatch

_problem = torch_mismatch(build_info().get("torch"), torch.__version__)
if _problem is not None:  # before loading: a call into another version of torch may crash
    raise ImportError(f"{_problem}. To fix this, {REINSTALL}.")
torch.utils.rename_privateuse1_backend("atalla")

try:
    from torch_atalla import _C
except ImportError as error:
    raise ImportError(explain(error)) from error

__all__ = ["_C"]
