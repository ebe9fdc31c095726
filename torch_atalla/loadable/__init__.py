# SPDX-License-Identifier: BSD-3-Clause
"""Loadables: exported programs as files that run on the chip.

    ep = torch.export.export(model.eval(), (x,))
    report = torch_atalla.save_loadable(ep, "model.atl", fallback="error")
    program = torch_atalla.load_loadable("model.atl", device="atalla")
    y = program(x.to("atalla"))

docs/concepts/aot.md describes the stages in between.
"""

from .errors import ExportError, LoadableError, UnsupportedOp, UnsupportedOpsError
from .load import load_loadable
from .method import LoadedMethod
from .program import LoadedProgram
from .report import LoadableReport, SegmentReport
from .tensor_spec import TensorSpec

__all__ = [
    "ExportError", "LoadableError", "LoadableReport", "LoadedMethod", "LoadedProgram", "SegmentReport",
    "TensorSpec", "UnsupportedOp", "UnsupportedOpsError", "load_loadable",
]  # fmt: skip
