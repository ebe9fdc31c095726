# SPDX-License-Identifier: BSD-3-Clause
"""Cycles of a decoded token in 8 and 4 bits (benchmarks/quantization), which are simulated and so exact."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from benchmarks.quantization.measure import of_token, quantized
from benchmarks.quantization.model import Sizes
from benchmarks.quantization.variants import Variant, variants

SIZES = Sizes(layers=1, vocabulary=1024)
LIMITS = {"int8 by row": 0.65, "int8 by row, int8 cache": 0.67, "float8_e4m3fn by row": 0.65, "int4 by 64": 0.46}
LIMITS |= {"Int8WeightOnlyConfig()": 0.65, "Int4WeightOnlyConfig()": 0.46, "Float8WeightOnlyConfig()": 0.65}
BY_NAME = {variant.name: variant for variant in variants()}


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> dict[str, int]:
    found = of_token(quantized(SIZES, BY_NAME["bfloat16"]), tmp_path_factory.mktemp("base"))
    return {name: cost.cycles for name, (cost, _) in found.items()}


@pytest.mark.parametrize("name", LIMITS)
def test_cycles_per_token(name: str, base: dict[str, int], tmp_path: Path) -> None:
    """No bytes pass between host and device, so that nothing is hidden from the counters."""
    variant: Variant = BY_NAME[name]
    if variant.library == "torchao":
        pytest.importorskip("torchao")
    found = of_token(quantized(SIZES, variant), tmp_path)
    assert torch.equal(found["eager"][1], found["loadable"][1])
    for engine, (cost, _) in found.items():
        assert cost.host_bytes == 0
        if (engine, variant.cache) != ("eager", torch.int8):  # which makes the whole cache anew in several launches
            assert cost.cycles <= LIMITS[name] * base[engine], f"{engine}: {cost.cycles / base[engine]:.3f}"
