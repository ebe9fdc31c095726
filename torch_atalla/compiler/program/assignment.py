# SPDX-License-Identifier: BSD-3-Clause
"""A linear program for one assignment of the symbols: every size is a number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from itertools import product
from math import prod
from typing import Any

import torch

from .ir import Buffer, HostCall, Immediate, Launch, LinearProgram, Operand, Port
from .sizes import Size, Symbols


class Assignment:
    """The values of a program's symbols, in their order."""

    def __init__(self, symbols: Symbols, values: Sequence[int]) -> None:
        self.values = tuple(values)
        self._numbers = {symbol.symbol: value for symbol, value in zip(symbols.symbols, values, strict=True)}
        self._symbols = symbols
        self._known: dict[Any, int] = {}

    def number(self, value: int | torch.SymInt) -> int:
        """A number of a linear program, or a size or stride of a tensor of the graph, as a plain int."""
        if isinstance(value, torch.SymInt):
            return self.evaluate(self._symbols.expression(value))
        return self.evaluate(value.expr) if isinstance(value, Size) else value

    def evaluate(self, expr: Any) -> int:
        """The value of an expression of the symbols."""
        if expr not in self._known:
            self._known[expr] = int(expr.xreplace(self._numbers))
        return self._known[expr]

    def program(self, program: LinearProgram) -> LinearProgram:
        """The program with these sizes. Its buffers are new, the tensors of constants the same."""
        return replace(
            program,
            buffers=[self._replaced(buffer) for buffer in program.buffers],
            instructions=[self._replaced(inst) for inst in program.instructions],
            inputs=[self._replaced(port) for port in program.inputs],
            outputs=[self._replaced(port) for port in program.outputs],
            values={name: self._replaced(operand) for name, operand in program.values.items()},
            states={name: self._replaced(operand) for name, operand in program.states.items()},
        )

    def _replaced(self, value: Any) -> Any:
        if isinstance(value, Size):
            return self.evaluate(value.expr)
        if isinstance(value, tuple):
            return tuple(map(self._replaced, value))
        if isinstance(value, (Buffer, HostCall, Immediate, Launch, Operand, Port)):
            return replace(value, **{field.name: self._replaced(getattr(value, field.name)) for field in fields(value)})
        return value


def count_assignments(symbols: Symbols) -> int:
    """How many assignments the ranges of the symbols allow."""
    return prod(symbol.max - symbol.min + 1 for symbol in symbols.symbols)


def assignments(symbols: Symbols) -> list[Assignment]:
    """Those that the ranges and the guards allow, in ascending order. The symbols are bounded."""
    ranges = [range(symbol.min, symbol.max + 1) for symbol in symbols.symbols]
    return [Assignment(symbols, values) for values in product(*ranges) if symbols.allow(values)]
