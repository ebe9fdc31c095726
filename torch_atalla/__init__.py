# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch device `atalla`: a PrivateUse1 backend over the simulated Atalla Ax01 accelerator.

`import torch` is enough: the entry point group `torch.backends` calls `_autoload`, which registers the device.

    x = torch.randn(4, 8, device="atalla")
    report = torch_atalla.save_loadable(torch.export.export(model, (x,)), "model.atl")
    y = torch_atalla.load_loadable("model.atl")(x)
"""


def _autoload() -> None:
    """Entry point of `torch.backends`: importing this module does the work.

    Stands before the import of torch: if a user imports torch_atalla first, torch calls it half-way through this file.
    """


import torch  # noqa: E402

__version__ = "0.1.0"

from . import device as _device  # noqa: E402
from ._register import register as _register  # noqa: E402

_register(_device)

from . import chip, distributed, fallback, isa, ops, telemetry  # noqa: E402  (the device must be registered first)
from .loadable import load_loadable, save_loadable  # noqa: E402

distributed.register()

__all__ = ["chip", "distributed", "fallback", "isa", "load_loadable", "ops", "save_loadable", "telemetry"]


del torch
