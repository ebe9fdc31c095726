# SPDX-License-Identifier: BSD-3-Clause
"""Formulas of csrc/aten/atalla_native_functions.yaml as trees: the part of C++'s expressions that they use."""

from __future__ import annotations

import re
from dataclasses import dataclass

_TOKEN = re.compile(r"\s*(\d+\.?\d*(?:e-?\d+)?|[A-Za-z_]\w*|&&|\|\||==|!=|<=|>=|<<|>>|[-+*/%<>!~&|^?:(),;])")
# Binary operators, loosest first.
_LEVELS = [["||"], ["&&"], ["|"], ["^"], ["&"], ["==", "!="], ["<", "<=", ">", ">="], ["<<", ">>"], ["+", "-"]]
_LEVELS.append(["*", "/", "%"])


@dataclass(frozen=True)
class Tree:
    """`what` is an operator with one to three parts ("?" has three), "call" with the function's name, "name" or
    "number"."""

    what: str
    name: str = ""
    parts: tuple[Tree, ...] = ()


def parse(formula: str) -> list[Tree]:
    """The expressions of a formula, one a result. Raises ValueError for what is no such text."""
    reader = _Reader(formula)
    trees = [reader.choice()]
    while reader.accept(";"):
        trees.append(reader.choice())
    if reader.token:
        raise ValueError(f"the formula {formula!r}: unexpected {reader.token!r}")
    return trees


class _Reader:
    def __init__(self, text: str) -> None:
        self.text, self.rest, self.token = text, text, ""
        self.next()

    def next(self) -> str:
        before = self.token
        found = _TOKEN.match(self.rest)
        if found is None and self.rest.strip():
            raise ValueError(f"the formula {self.text!r}: unexpected {self.rest.strip()[0]!r}")
        self.token = found.group(1) if found else ""
        self.rest = self.rest[found.end() :] if found else ""
        return before

    def accept(self, token: str) -> bool:
        if self.token == token:
            self.next()
            return True
        return False

    def expect(self, token: str) -> None:
        if not self.accept(token):
            raise ValueError(f"the formula {self.text!r}: expected {token!r}, found {self.token!r}")

    def choice(self) -> Tree:
        condition = self.binary(0)
        if not self.accept("?"):
            return condition
        yes = self.choice()
        self.expect(":")
        return Tree("?", parts=(condition, yes, self.choice()))

    def binary(self, level: int) -> Tree:
        if level == len(_LEVELS):
            return self.unary()
        left = self.binary(level + 1)
        while self.token in _LEVELS[level]:
            operator = self.next()
            left = Tree(operator, parts=(left, self.binary(level + 1)))
        return left

    def unary(self) -> Tree:
        if self.token in ("-", "!", "~"):
            return Tree(self.next(), parts=(self.unary(),))
        return self.primary()

    def primary(self) -> Tree:
        if self.accept("("):
            inner = self.choice()
            self.expect(")")
            return inner
        word = self.next()
        if word[:1].isdigit():
            return Tree("number", word)
        if not word[:1].isalpha() and word[:1] != "_":
            raise ValueError(f"the formula {self.text!r}: unexpected {word!r}")
        if not self.accept("("):
            return Tree("name", word)
        parts = []
        while not self.accept(")"):
            parts.append(self.choice())
            if self.token != ")":
                self.expect(",")
        return Tree("call", word, tuple(parts))
