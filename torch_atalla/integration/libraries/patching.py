# SPDX-License-Identifier: BSD-3-Clause
"""The two ways in which files of this folder change a library: a function or method, and a list of names."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any


def replaces(owner: ModuleType | type, name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make the decorated function take the place of a function of a module, also in modules of the library that
    imported it, or of a method that a class itself defines. It gets the original before the arguments of a call."""
    original = vars(owner)[name] if isinstance(owner, type) else getattr(owner, name)

    def replace(new: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def changed(*args: Any, **kwargs: Any) -> Any:
            return new(original, *args, **kwargs)

        owners: list[Any] = [owner]
        if isinstance(owner, ModuleType):
            library = owner.__name__.partition(".")[0]
            modules = [module for other, module in list(sys.modules.items()) if other.partition(".")[0] == library]
            owners = [module for module in modules if vars(module).get(name) is original]
        for each in owners:
            setattr(each, name, changed)
        return new

    return replace


def add_to_list(function: FunctionType, name: str, *, beside: str) -> None:
    """Add `name` to the constant lists in a function's code that contain the string `beside`.

    It is for functions that compare a device's type with names written in their middle.
    """
    code = function.__code__

    def longer(constant: Any) -> Any:
        if isinstance(constant, tuple) and beside in constant and all(isinstance(item, str) for item in constant):
            return (*constant, name)
        return constant

    constants = tuple(longer(c) for c in code.co_consts)
    if constants == code.co_consts:
        raise ValueError(f"{function.__qualname__} has no list that contains {beside!r}")
    function.__code__ = code.replace(co_consts=constants)
