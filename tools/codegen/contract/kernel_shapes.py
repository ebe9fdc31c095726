# SPDX-License-Identifier: BSD-3-Clause
"""The sizes of operands in csrc/sim/kernels.yaml: a small language, parsed and checked.

[b, m, k]                   a name has one size in all operands of a launch, or is a parameter of the kernel
[*batch, n, n]              *name stands for any number of dimensions, the same in all operands
[ceil(n / 32), k, 32]       expressions of sizes and integer parameters: + - * /, ceil, min, max, rank(*name)
[*before, n@dim, *after]    the place of a size is a parameter; a tensor without dimensions counts as one of size 1
[*i@reduced]                size 1 in the dimensions of a mask
    [n, _]                      any size
[*_o]                       as many dimensions as *o has, of any sizes
[n] if offsets else [b]     by a parameter: a bool, `mode == sum`, or `mode in (sum, mean)`
one value                   one element, in any number of dimensions
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass

ONE_VALUE = "one value"
FUNCTIONS = ("ceil", "min", "max", "rank")


class ShapeError(ValueError):
    """Says which part of a shape is wrong, and what is expected."""


@dataclass(frozen=True)
class Size:
    """One dimension. `place` is the parameter that says which one it is, or empty."""

    text: str
    place: str = ""

    @property
    def any(self) -> bool:
        return self.text == "_"


@dataclass(frozen=True)
class Group:
    """Any number of dimensions. `mask` is the parameter whose bits mark dimensions of size 1, or empty. Of the sizes
    `any`, only their number counts."""

    name: str
    mask: str = ""
    any: bool = False

    @property
    def text(self) -> str:
        return f"*_{self.name}" if self.any else f"*{self.name}"


@dataclass(frozen=True)
class Form:
    text: str
    terms: tuple[Size | Group, ...] | None  # None: one value

    @property
    def groups(self) -> tuple[Group, ...]:
        return tuple(term for term in self.terms or () if isinstance(term, Group))

    @property
    def placed(self) -> bool:
        return any(isinstance(term, Size) and term.place for term in self.terms or ())


@dataclass(frozen=True)
class Shape:
    forms: tuple[tuple[str, Form], ...]  # condition and form; the last one has no condition


def parse(text: str, parameters: Mapping[str, tuple[str, ...]]) -> Shape:
    """Parse a shape. `parameters` has the integer parameters of the kernel, with the values of those that are enums.
    Raises ShapeError."""
    forms = []
    rest = text.strip()
    while rest:
        match = re.match(r"(\[[^\[\]]*(?:\[\d+\][^\[\]]*)*\]|one value)(?: if (.+?) else )?", rest)
        if match is None or bool(match[2]) == (match.end() == len(rest)):
            raise ShapeError(f"shape is `{text}`; expected `[a, b]`, `{ONE_VALUE}`, or `[a] if condition else [b]`")
        if match[2]:
            condition(match[2], parameters)
        forms.append((match[2] or "", _form(match[1], parameters)))
        rest = rest[match.end() :]
    return Shape(tuple(forms))


def _form(text: str, parameters: Mapping[str, tuple[str, ...]]) -> Form:
    if text == ONE_VALUE:
        return Form(text, None)
    parts = re.split(r",(?![^(]*\))", text[1:-1]) if text != "[]" else []
    terms = tuple(_term(part.strip(), parameters) for part in parts)
    form = Form(text, terms)
    free = len(form.groups)
    if free > 2 or (free == 2 and not form.placed):
        raise ShapeError(f"shape is `{text}`; expected at most one `*name`, or two around a size with a place")
    return form


def _term(text: str, parameters: Mapping[str, tuple[str, ...]]) -> Size | Group:
    before, _, place = text.partition("@")
    if place and place not in parameters:
        raise ShapeError(
            f"the place `{place}` is not an integer parameter; those are {', '.join(parameters) or 'none'}"
        )
    if match := re.fullmatch(r"\*(_?)([a-z]\w*)", before):
        return Group(match[2], place, bool(match[1]))
    if before != "_":
        expression(before)
    return Size(before, place)


def expression(text: str) -> ast.expr:
    """The syntax tree of an expression of sizes. Raises ShapeError."""
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError:
        raise ShapeError(f"the size `{text}` is not an expression") from None
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and not (isinstance(node.func, ast.Name) and node.func.id in FUNCTIONS):
            raise ShapeError(f"the size `{text}` calls a function; expected one of {', '.join(FUNCTIONS)}")
        if isinstance(node, ast.Constant) and type(node.value) is not int:
            raise ShapeError(f"the size `{text}` has the constant {node.value!r}; expected an integer")
    return tree


def names(text: str) -> set[str]:
    """The names of sizes, parameters and groups in an expression."""
    tree = expression(text)
    called = {node.func for node in ast.walk(tree) if isinstance(node, ast.Call)}
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and node not in called}


def condition(text: str, parameters: Mapping[str, tuple[str, ...]]) -> tuple[str, tuple[int, ...]]:
    """The parameter that a condition asks for, and its values that fulfil it; none: all but 0. Raises ShapeError."""
    match = re.fullmatch(r"(\w+)(?: == (\w+)| in \(([\w, ]+)\))?", text)
    if match is None or match[1] not in parameters:
        raise ShapeError(f"condition is `{text}`; expected a parameter, `mode == sum` or `mode in (sum, mean)`")
    wanted = re.findall(r"\w+", match[2] or match[3] or "")
    values = parameters[match[1]]
    for value in wanted:
        if value not in values:
            raise ShapeError(f"condition is `{text}`; {match[1]} has the values {', '.join(values) or 'of an integer'}")
    return match[1], tuple(values.index(value) for value in wanted)
