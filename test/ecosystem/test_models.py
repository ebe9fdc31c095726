# SPDX-License-Identifier: BSD-3-Clause
"""Small forms of well-known architectures run eagerly on the device, wholly natively, and match the CPU."""

from __future__ import annotations

import importlib.util

import pytest

from tools.comparison import TOLERANCE
from tools.model_tables import eager
from tools.model_zoo import MODELS

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("transformers") is None, reason="needs requirements-demo.txt"),
    pytest.mark.filterwarnings("ignore"),
]

# Models that lack an op, with its name. Strict: a model that runs fails until its row goes.
MISSING: dict[str, str] = {}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.xfail(reason=MISSING[name], strict=True) if name in MISSING else ())
        for name in MODELS
    ],
)
def test_model(name: str) -> None:
    result = eager.measure(name)
    assert not result.problem, f"{result.problem} is not native"
    assert result.error <= TOLERANCE
    assert result.ops > 20 and result.launches > 10 and result.cycles > 0


def test_page() -> None:
    results = [
        eager.Result("A", 1000, 10, 5, 2000, 3e-6, 1e-6),
        eager.Result("B", 2000, problem="aten::roll"),
        eager.Result("C", 3000, 10, 5, 2000, 3e-6, 1.0),
    ]
    text = "\n".join(eager.lines(results))
    assert "1 of 3 run wholly on the chip" in text
    assert "| A | 1,000 | 10 | 5 | 2,000 | 3 µJ | 1.0e-06 | |" in text
    assert "| B | 2,000 | | | | | | `aten::roll` |" in text


def test_enough_models() -> None:
    assert len(MODELS) >= 20
    assert len(MODELS) - len(MISSING) >= 20
    assert set(MISSING) <= set(MODELS)
