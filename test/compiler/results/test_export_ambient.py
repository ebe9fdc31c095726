# SPDX-License-Identifier: BSD-3-Clause
"""Modes and defaults of the thread and of the process change no launch of a file that is saved under them. Only new
memory has the contents of eager mode, which fills it under deterministic algorithms."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.testing._internal.common_utils import DeterministicGuard, set_default_dtype

import torch_atalla
from torch_atalla.loadable.description import describe, render


class Model(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        picked = x.new_zeros(4, 3).index_add(0, torch.tensor([1, 3], device=x.device), x[:2])
        return x.sum() * y, torch.relu(x @ y.t()), x.sort(1)[0].cumsum(0), picked


AMBIENTS: dict[str, Callable[[], AbstractContextManager]] = {
    "default dtype": lambda: set_default_dtype(torch.bfloat16),
    "deterministic": lambda: DeterministicGuard(True),
    "autocast": lambda: torch.autocast("atalla", torch.bfloat16),
    "inference": torch.inference_mode,
    "device": lambda: torch.device("atalla"),
    "gradients": torch.enable_grad,
}


def _launches(program: torch.export.ExportedProgram) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.atl"
        torch_atalla.save_loadable(program, path, fallback="error", golden=False)
        return [line for line in render(describe(str(path))).splitlines() if " <- " in line]


@pytest.fixture(scope="module")
def exported() -> torch.export.ExportedProgram:
    return torch.export.export(Model(), (torch.randn(3, 3), torch.randn(2, 3)))


@pytest.mark.parametrize("name", AMBIENTS)
def test_launches(name: str, exported: torch.export.ExportedProgram) -> None:
    plain = _launches(exported)
    with AMBIENTS[name]():
        assert _launches(exported) == plain


def test_compiled_with_deterministic_algorithms() -> None:
    compiled = torch.compile(Model(), backend="atalla", fullgraph=True, options={"fallback": "error"})
    x, y = torch.randn(3, 3, device="atalla"), torch.randn(2, 3, device="atalla")
    with DeterministicGuard(True):
        for found, wanted in zip(compiled(x, y), Model()(x, y), strict=True):
            torch.testing.assert_close(found, wanted, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16, torch.complex64, torch.int64, torch.bool))
def test_compiled_fills_new_memory(dtype: torch.dtype) -> None:
    """As eager mode does under deterministic algorithms."""

    def new(x: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(x, dtype=dtype)

    x = torch.ones(3, device="atalla")
    with DeterministicGuard(True):
        found, wanted = torch.compile(new)(x), new(x)
    torch.testing.assert_close(found, wanted, rtol=0, atol=0, equal_nan=True)
