# SPDX-License-Identifier: BSD-3-Clause
"""What the assembler and the readers of text images raise."""

from __future__ import annotations


class AssemblyError(ValueError):
    """A mistake in assembly text. `line` and `column` count from 1; `text` is the line."""

    def __init__(self, reason: str, line: int, column: int, text: str = "", where: str = ""):
        self.reason, self.line, self.column, self.text = reason, line, column, text
        shown = f"{where}:{line}:{column}: {reason}" if where else f"line {line}, column {column}: {reason}"
        if text:
            shown += f"\n    {text}\n    {' ' * (column - 1)}^"
        super().__init__(shown)
