# SPDX-License-Identifier: BSD-3-Clause
"""A table of functions that fills itself: each function says what it is for."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable)


class Rules(dict[Any, Callable]):
    def __call__(self, *names: Any, **given: Any) -> Callable[[F], F]:
        """Enters the function below under these names, with these arguments given."""

        def enter(function: F) -> F:
            self.update(dict.fromkeys(names, partial(function, **given) if given else function))
            return function

        return enter
