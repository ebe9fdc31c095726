# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch device `atalla`: a PrivateUse1 backend over the simulated Atalla Ax01 accelerator.

`import torch` is enough: it loads the entry point `_autoload` (group `torch.backends`), which registers the device.

    x = torch.randn(4, 8, device="atalla")
    report = torch_atalla.save_loadable(torch.export.export(model, (x,)), "model.atl")
    y = torch_atalla.load_loadable("model.atl")(x)

Importing the package imports only what the registration needs. Public modules and functions are imported when they are
used: every `import torch` would otherwise wait for them.
"""

import importlib
import sys
from typing import TYPE_CHECKING, Any

_registered = False
_importing = True


def _register_device() -> None:
    global _registered
    if _registered:
        return
    _registered = True
    from .device import namespace
    from .integration.register import register

    register(namespace)
    from . import distributed

    distributed.register()
    from .charges import use_clock_of_environment

    use_clock_of_environment()


def _autoload() -> None:
    """Entry point of `torch.backends`.

    If a user imports torch_atalla before torch, torch calls it while this file, which registers the device at its end,
    is still running.
    """
    if not _importing:
        _register_device()


def _runs_without_torch() -> bool:
    """Whether this import is for a command of `python -m torch_atalla` that does not need torch. If it imports torch
    after all, torch registers the device. Python locates the program with "-m" as the first argument."""
    arguments, given = sys.argv, sys.orig_argv
    if arguments[:1] != ["-m"] or "-m" not in given or given[given.index("-m") + 1 :][:1] != ["torch_atalla"]:
        return False
    return arguments[1:2] == ["inspect"]


if TYPE_CHECKING:
    from . import chip, distributed, energy, fallback, isa, ops, telemetry
    from . import loadable as loadable
    from . import quantization as quantization
    from .compiler.capture.training_step import TrainingStep
    from .compiler.file.save import save_loadable
    from .explorer.study import explore
    from .loadable.load import load_loadable
    from .quantization.choose import quantize
    from .reports.report import report
    from .version import __version__ as __version__
else:
    _MODULES = {
        "chip", "device", "distributed", "driver", "energy", "fallback", "integration", "isa", "loadable", "ops",
        "quantization", "telemetry",
    }  # fmt: skip
    _OBJECTS = {
        "TrainingStep": "compiler.capture.training_step",
        "save_loadable": "compiler.file.save",
        "explore": "explorer.study",
        "load_loadable": "loadable.load",
        "quantize": "quantization.choose",
        "report": "reports.report",
        "__version__": "version",
    }

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return importlib.import_module(f".{name}", __name__)
        if name in _OBJECTS:
            return getattr(importlib.import_module(f".{_OBJECTS[name]}", __name__), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *_MODULES, *_OBJECTS})


__all__ = [
    "TrainingStep", "chip", "distributed", "explore", "fallback", "isa", "load_loadable", "ops", "quantize", "report",
    "save_loadable", "telemetry", "energy",
]  # fmt: skip

if not _runs_without_torch():
    _register_device()
_importing = False
