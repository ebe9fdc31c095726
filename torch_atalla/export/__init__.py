# SPDX-License-Identifier: BSD-3-Clause
"""From torch.export to a loadable: capture, passes, partition, lower, plan, emit. docs/concepts/aot.md explains it."""

from .errors import ExportError, UnsupportedOp, UnsupportedOpsError
from .pipeline import Compiled, compile_program

__all__ = ["Compiled", "ExportError", "UnsupportedOp", "UnsupportedOpsError", "compile_program"]
