# SPDX-License-Identifier: BSD-3-Clause
"""From torch.export to a loadable: capture, passes, partition, lower, plan, emit. docs/concepts/aot.md explains it."""

from torch_atalla.loadable.errors import ExportError, UnsupportedOp, UnsupportedOpsError

from .targets.functional.pipeline import Compiled, compile_program

__all__ = ["Compiled", "ExportError", "UnsupportedOp", "UnsupportedOpsError", "compile_program"]
