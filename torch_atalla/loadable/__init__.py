# SPDX-License-Identifier: BSD-3-Clause
"""Loadables: exported programs as files that run on the chip.

    ep = torch.export.export(model.eval(), (x,))
    report = torch_atalla.save_loadable(ep, "model.atl", fallback="error")
    program = torch_atalla.load_loadable("model.atl", device="atalla")
    y = program(x.to("atalla"))

docs/concepts/aot.md describes the stages in between. The names are imported when they are used: a file is described
without torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .errors import ExportError, LoadableError, UnsupportedOp, UnsupportedOpsError
    from .load import load_loadable
    from .method import LoadedMethod
    from .program import LoadedProgram
    from .report import LoadableReport, SegmentReport
    from .tensor_spec import TensorSpec
else:
    _MODULES = {
        **dict.fromkeys(("ExportError", "LoadableError", "UnsupportedOp", "UnsupportedOpsError"), "errors"),
        "load_loadable": "load",
        "LoadedMethod": "method",
        "LoadedProgram": "program",
        **dict.fromkeys(("LoadableReport", "SegmentReport"), "report"),
        "TensorSpec": "tensor_spec",
    }

    def __getattr__(name: str) -> Any:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f".{_MODULES[name]}", __name__), name)


__all__ = [
    "ExportError", "LoadableError", "LoadableReport", "LoadedMethod", "LoadedProgram", "SegmentReport",
    "TensorSpec", "UnsupportedOp", "UnsupportedOpsError", "load_loadable",
]  # fmt: skip
