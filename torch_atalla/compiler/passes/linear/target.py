# SPDX-License-Identifier: BSD-3-Clause
"""What an engine can do in one launch. The passes that join launches ask the target, so that all engines of a file run
the same ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...program.ir import Launch


def _anything(launch: Launch) -> bool:
    return True


@dataclass(frozen=True)
class Target:
    """step: whether an elementwise launch may be a step of another one. takes: whether a launch that has been joined
    can run. reductions: whether a reduction may take in steps. code: the launches become chip code as well."""

    step: Callable[[Launch], bool] = _anything
    takes: Callable[[Launch], bool] = _anything
    reductions: bool = True
    code: bool = False


FUNCTIONAL = Target()  # the kernels of the device library
