# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch device `atalla`: a PrivateUse1 backend over the simulated Atalla Ax01 accelerator.

`import torch` is enough: it loads the entry point `_autoload` (group `torch.backends`), which registers the device.

    x = torch.randn(4, 8, device="atalla")
    report = torch_atalla.save_loadable(torch.export.export(model, (x,)), "model.atl")
    y = torch_atalla.load_loadable("model.atl")(x)
"""


def _autoload() -> None:
    """Entry point of `torch.backends`. Importing this module registers the device, so the function is empty.

    It is defined first: if a user imports torch_atalla before torch, torch calls it while this file is still running.
    """


from typing import TYPE_CHECKING, Any  # noqa: E402

from .device import namespace as _namespace  # noqa: E402
from .integration.register import register as _register  # noqa: E402
from .version import __version__ as __version__  # noqa: E402

_register(_namespace)

from . import chip, distributed, energy, fallback, isa, ops, telemetry  # noqa: E402  (the device must be registered first)
from .loadable import load_loadable  # noqa: E402

if TYPE_CHECKING:
    from .compiler.capture.training_step import TrainingStep
    from .compiler.file.save import save_loadable
    from .explorer.study import explore
    from .quantization.choose import quantize
    from .reports.report import report
else:

    def __getattr__(name: str) -> Any:
        if name == "save_loadable":  # imported lazily: loading a program does not need it
            from .compiler.file.save import save_loadable

            return save_loadable
        if name == "explore":
            from .explorer.study import explore

            return explore
        if name == "quantize":
            from .quantization.choose import quantize

            return quantize
        if name == "report":
            from .reports.report import report

            return report
        if name == "TrainingStep":
            from .compiler.capture.training_step import TrainingStep

            return TrainingStep
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


distributed.register()

__all__ = [
    "TrainingStep", "chip", "distributed", "explore", "fallback", "isa", "load_loadable", "ops", "quantize", "report",
    "save_loadable", "telemetry", "energy",
]  # fmt: skip
