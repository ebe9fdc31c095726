# SPDX-License-Identifier: BSD-3-Clause
"""Errors of saving and loading a loadable."""

from __future__ import annotations

from dataclasses import dataclass

# The errors that reading a JSON text of a file raises if save_loadable did not write the text.
MALFORMED = (
    *(ValueError, TypeError, KeyError, IndexError, AttributeError, AssertionError, OverflowError, RecursionError),
)


class ExportError(RuntimeError):
    """An exported program cannot be saved as a loadable. The text states what was found and what was expected."""


class NotNativeError(Exception):
    """Raised for a node that cannot be lowered. Reports show the text as the reason."""


@dataclass(frozen=True)
class UnsupportedOp:
    """One node without a native lowering."""

    op: str  # with the overload: "aten::sort.stable"
    node: str
    dtypes: str  # of the tensor inputs, e.g. "float32, int64"
    reason: str
    source: str = ""  # "file.py:12", where known

    def __str__(self) -> str:
        where = f" at {self.source}" if self.source else ""
        return f"{self.op} ({self.dtypes}), node {self.node}{where}: {self.reason}"


class UnsupportedOpsError(ExportError):
    """`fallback="error"` was requested, and some nodes are not native. The text lists all of them."""

    def __init__(self, ops: list[UnsupportedOp]):
        self.ops = tuple(ops)
        count = f"{len(ops)} node{'s' if len(ops) != 1 else ''}"
        lines = "\n".join(f"  {op}" for op in ops)
        super().__init__(f'fallback="error": {count} cannot run on the chip:\n{lines}')


class LoadableError(RuntimeError):
    """The file is not a loadable, or this installation cannot run it. The text lists every problem found."""
