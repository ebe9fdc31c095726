# SPDX-License-Identifier: BSD-3-Clause
"""Templates that are texts with fields (Statements.fields): most of them are for both kinds of programs, those whose
sizes are numbers, and those whose sizes are expressions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import generator
from .nested import builder as nested
from .statements import Dtypes, Statements
from .values import has_overlap

Template = Callable[[Statements], "str | None"]
Tables = tuple[Callable[..., Callable[[Any], Any]], ...]  # their decorators
PLAIN: Tables = (generator.template,)
NESTED: Tables = (nested.template,)
BOTH: Tables = (*PLAIN, *NESTED)


class _Fields(dict[str, Any]):
    """The values of a text's fields, each made when the text has it. Each {s} is another size."""

    def __init__(self, makers: dict[str, Callable[[], Any]], given: dict[str, Any]):
        super().__init__(given)
        self.makers = makers

    def __missing__(self, name: str) -> Any:
        if name not in self.makers:  # no LookupError, for which a statement does not come about
            raise NameError(f"a text has the field {{{name}}}; known: {', '.join(sorted(self.makers))}")
        made = self.makers[name]()
        return made if name == "s" else self.setdefault(name, made)


def written(g: Statements, operand: str, **given: Any) -> str:
    """The text of the template under way; its operand is {x}, or {z} if it is complex. given: values of further fields,
    or other ones."""
    return g.name.format_map(_Fields(g.fields(operand), {"x": operand, "z": operand, **given}))


def each(form: str, *parts: str) -> list[str]:
    """The texts that have each of these parts in the place of {op}."""
    return [form.replace("{op}", part) for part in parts]


def shared(*names: str, weight: float, tables: Tables = BOTH) -> Callable[[Template], Template]:
    """Create the decorator that registers a function in several tables."""

    def register(function: Template) -> Template:
        for template in tables:
            template(*names, weight=weight)(function)
        return function

    return register


def texts(
    *names: str,
    weight: float = 0.4,
    dtypes: Dtypes = "floats",
    least: int = 1,
    rank: int | None = None,
    tables: Tables = BOTH,
) -> None:
    """Register texts about an operand of these dtypes, which has `rank` dimensions, or at least `least`."""

    @shared(*names, weight=weight, tables=tables)
    def write(g: Statements) -> str:
        x = g.operand(dtypes, least, rank)
        # The CPU writes to a copy whose elements share memory, too.
        copied = "_scatter(" in g.name and any(has_overlap(scope[x]) for scope in g.scopes)
        return written(g, x, x=f"{x}.contiguous()" if copied else x)
