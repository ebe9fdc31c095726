# SPDX-License-Identifier: BSD-3-Clause
"""Formulas of csrc/aten/atalla_native_functions.yaml as trees: the part of C++'s expressions that they use."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, lru_cache
from math import inf, nan, pi
from typing import Any

import torch

from ....program.support import generated

MATH = {"INFINITY": inf, "NAN": nan, "M_PI": pi, "M_SQRT2": 2**0.5, "M_SQRT1_2": 0.5**0.5, "M_2_SQRTPI": 2 / pi**0.5}

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


@lru_cache(maxsize=1)
def formulas() -> dict[str, Any]:
    """Of the list of native ops, by kernel."""
    return generated("formulas.json", "table of formulas")


def formula_of(kernel: str, compute_dtype: torch.dtype) -> str | None:
    """The kernel's formula for numbers of a dtype, if it has one."""
    return formulas().get(kernel, {"formulas": {}})["formulas"].get(_class(compute_dtype))


def _class(dtype: torch.dtype) -> str:
    """As the list of native ops names it."""
    if dtype is torch.bool:
        return "bool"
    return "floating" if dtype.is_floating_point else "complex" if dtype.is_complex else "integer"


@cache
def parse(formula: str) -> tuple[Tree, ...]:
    """The expressions of a formula, one a result. Raises ValueError for what is no such text."""
    reader = _Reader(formula)
    trees = [reader.choice()]
    while reader.accept(";"):
        trees.append(reader.choice())
    if reader.token:
        raise ValueError(f"the formula {formula!r}: unexpected {reader.token!r}")
    return tuple(trees)


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
