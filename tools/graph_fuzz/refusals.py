# SPDX-License-Identifier: BSD-3-Clause
"""How a path says that it does not take a case."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager


class Refused(Exception):
    """A path does not take the case, and says so; the text is the reason."""


@contextmanager
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
