# SPDX-License-Identifier: BSD-3-Clause
"""What the sweep runs: OpInfos, dtypes, directions; and what it does not, with the reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db

from torch_atalla.testing import DEVICE_DTYPES, GRADIENT_DTYPES, op_name

SPARSE = {"sparse.sampled_addmm", "sparse.mm.reduce", "to_sparse"}
COMPLEX = (torch.complex64, torch.complex128)
# The order in which an OpInfo's first missing overload is looked for: the commonest dtype first.
ORDER = (torch.float32, torch.int64, torch.bool, torch.complex64)
# OpInfos that other backends' coverage is counted over: forward, strided, for the first supported dtype of ORDER.
SURVEYED = 684


@dataclass(frozen=True)
class Case:
    """One op in one dtype and direction: what a row of the sweep is about."""

    op: str
    dtype: str
    direction: str  # "forward" or "backward"

    @property
    def key(self) -> str:
        return f"{self.op} {self.dtype} {self.direction}"


def short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def excluded(op: Any) -> str | None:
    """Why an OpInfo cannot run on any device but a GPU, or not with strided tensors."""
    name = op_name(op)
    if name.startswith("jiterator_"):
        return "compiles CUDA code"
    if name in SPARSE:
        return "about sparse layouts"
    if not op.dtypes:
        return "no dtype on the CPU"
    return None


def device_dtypes() -> tuple[torch.dtype, ...]:
    return tuple(sorted(DEVICE_DTYPES, key=lambda d: ORDER.index(d) if d in ORDER else len(ORDER)))


def cases(op: Any, directions: tuple[str, ...] = ("forward", "backward")) -> list[Case]:
    """Forward for each dtype that both the CPU and the device have; backward for the wide floating and complex ones."""
    if excluded(op):
        return []
    found = [Case(op_name(op), short(d), "forward") for d in device_dtypes() if d in op.dtypes]
    if op.supports_autograd:
        differentiable = op.supported_backward_dtypes("cpu")
        found += [Case(op_name(op), short(d), "backward") for d in GRADIENT_DTYPES if d in differentiable]
    return [case for case in found if case.direction in directions]


def by_name() -> dict[str, Any]:
    return {op_name(op): op for op in op_db}
