# SPDX-License-Identifier: BSD-3-Clause
"""Tables of templates, the functions that write statements of programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Template = TypeVar("Template", bound=Callable[..., "str | None"])


def registration(templates: dict[str, tuple[Template, float]]) -> Callable[..., Callable[[Template], Template]]:
    """Create the decorator of a table: `@template(*names, weight=1.0)`.

    It registers a function that writes the right side of a statement, or gives None when it has no operands for one. A
    text that ends with ";" works in place and defines no value.
    """

    def template(*names: str, weight: float = 1.0) -> Callable[[Template], Template]:
        def register(function: Template) -> Template:
            templates.update(dict.fromkeys(names, (function, weight)))
            return function

        return register

    return template
