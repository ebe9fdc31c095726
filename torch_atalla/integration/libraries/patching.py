# SPDX-License-Identifier: BSD-3-Clause
"""The three ways in which files of this folder change a library: a function, a method, a list of names."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any


def replace(module: ModuleType, name: str, new: Callable[[Any], Any]) -> None:
    """Replace the function `name` of `module` by `new(original)`, also in modules of the library that imported it."""
    original = getattr(module, name)
    changed = functools.wraps(original)(new(original))
    library = module.__name__.partition(".")[0]
    for other, importer in list(sys.modules.items()):
        if other == library or other.startswith(library + "."):
            if vars(importer).get(name) is original:
                setattr(importer, name, changed)


def replace_method(cls: type, name: str, new: Callable[[Any], Any]) -> None:
    """Replace the method `name`, which `cls` itself defines, by `new(original)`."""
    original = vars(cls)[name]
    setattr(cls, name, functools.wraps(original)(new(original)))


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
