# SPDX-License-Identifier: BSD-3-Clause
"""Tokens and constant expressions of assembly text."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from .errors import AssemblyError

_TOKENS = re.compile(
    r"""(?P<space>[ \t\r]+)|(?P<comment>(\#|//).*)
    |(?P<real>\d+(\.\d*)?[eE][+-]?\d+|\d+\.\d*)
    |(?P<number>0[xX][0-9a-fA-F_]+|0[bB][01_]+|\d[\d_]*)
    |(?P<name>[.%]?[A-Za-z_][\w.$]*)
    |(?P<symbol><<|>>|[-+*/%&|^~(){},;:=])""",
    re.X,
)
_PRECEDENCE = {"|": 1, "^": 2, "&": 3, "<<": 4, ">>": 4, "+": 5, "-": 5, "*": 6, "/": 6, "%": 6}
_MAX_SHIFT = 64
_MAX_DEPTH = 64
_LIMIT = 1 << 64


class Token(NamedTuple):
    kind: str  # real, number, name, symbol, end
    text: str
    column: int  # from 1


class Line:
    """The tokens of one line, consumed from left to right."""

    def __init__(self, text: str, number: int, where: str):
        self.text, self.number, self.where = text, number, where
        self.tokens: list[Token] = []
        self.position = 0
        at = 0
        while at < len(text):
            match = _TOKENS.match(text, at)
            if match is None:
                raise self.error(f"unexpected character `{text[at]}`", at + 1)
            kind = match.lastgroup or ""
            if kind not in ("space", "comment"):
                self.tokens.append(Token(kind, match.group(), at + 1))
            at = match.end()
        self.tokens.append(Token("end", "", len(text.rstrip()) + 1))

    def error(self, reason: str, column: int | None = None) -> AssemblyError:
        return AssemblyError(reason, self.number, column or self.peek().column, self.text, self.where)

    def peek(self, ahead: int = 0) -> Token:
        return self.tokens[min(self.position + ahead, len(self.tokens) - 1)]

    def next(self) -> Token:
        token = self.peek()
        self.position += 1
        return token

    def accept(self, symbol: str) -> bool:
        token = self.tokens[self.position]
        if token.kind == "symbol" and token.text == symbol:
            self.position += 1
            return True
        return False

    def expect(self, symbol: str) -> None:
        if not self.accept(symbol):
            raise self.error(f"expected `{symbol}`, found {shown(self.peek())}")

    def at_end(self) -> bool:
        return self.tokens[self.position].kind == "end"


def shown(token: Token) -> str:
    return "the end of the line" if token.kind == "end" else f"`{token.text}`"


def expression(line: Line, names: Mapping[str, int] | Callable[[str], int | None], depth: int = 0) -> int | float:
    """The value of the expression at the line's position. Operators as in C; `/` truncates for integers."""
    lookup = names if callable(names) else names.get
    return _binary(line, lookup, 1, depth)


def _binary(line: Line, lookup, lowest: int, depth: int) -> int | float:
    left = _unary(line, lookup, depth)
    while True:
        token = line.peek()
        level = _PRECEDENCE.get(token.text, 0) if token.kind == "symbol" else 0
        if level < lowest:
            return left
        line.next()
        right = _binary(line, lookup, level + 1, depth)
        left = _apply(line, token, left, right)


def _apply(line: Line, token: Token, a, b):
    op = token.text
    if op not in "+-*/" and (isinstance(a, float) or isinstance(b, float)):
        raise line.error(f"`{op}` takes integers", token.column)
    if op in "/%" and b == 0:
        raise line.error("division by zero", token.column)
    if op in ("<<", ">>") and not 0 <= b < _MAX_SHIFT:
        raise line.error(f"shift by {b}; expected 0 to {_MAX_SHIFT - 1}", token.column)
    if op == "/":
        if isinstance(a, float) or isinstance(b, float):
            return a / b
        quotient = abs(a) // abs(b)
        return quotient if (a < 0) == (b < 0) else -quotient
    table = {
        "+": lambda: a + b,
        "-": lambda: a - b,
        "*": lambda: a * b,
        "%": lambda: a - b * _truncated(a, b),
        "&": lambda: a & b,
        "|": lambda: a | b,
        "^": lambda: a ^ b,
        "<<": lambda: a << b,
        ">>": lambda: a >> b,
    }
    value = table[op]()
    if isinstance(value, int) and abs(value) >= _LIMIT:
        raise line.error("the value leaves 64 bits", token.column)
    return value


def _truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _unary(line: Line, lookup, depth: int) -> int | float:
    value: int | float
    if depth > _MAX_DEPTH:
        raise line.error("the expression is nested too deeply")
    token = line.next()
    if token.kind == "number":
        try:
            number = int(token.text, 0) if not token.text.isdigit() else int(token.text)
        except ValueError:
            raise line.error(f"`{token.text}` is no number", token.column) from None
        if number >= _LIMIT:
            raise line.error(f"{token.text} leaves 64 bits", token.column)
        return number
    if token.kind == "real":
        return float(token.text)
    if token.kind == "name":
        value = lookup(token.text)
        if value is None:
            raise line.error(f"`{token.text}` is not defined", token.column)
        return value
    if token.text == "(":
        value = _binary(line, lookup, 1, depth + 1)
        line.expect(")")
        return value
    if token.text in ("-", "+", "~"):
        value = _unary(line, lookup, depth + 1)
        if token.text == "~":
            if isinstance(value, float):
                raise line.error("`~` takes an integer", token.column)
            return ~value
        return -value if token.text == "-" else value
    raise line.error(f"expected a value, found {shown(token)}", token.column)
