# SPDX-License-Identifier: BSD-3-Clause
"""`torch_atalla.quantize`: precision by measured loss and simulated cycles."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import torch_atalla
from torch_atalla.quantization import QuantizedLinear


def network() -> nn.Sequential:
    """A layer that four bits ruin, since its groups have outliers, and two that they do not."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(128, 256), nn.GELU(), nn.Linear(256, 256), nn.GELU(), nn.Linear(256, 64))
    with torch.no_grad():
        model[2].weight[:, ::64] *= 60
    return model.eval().requires_grad_(False)


def chosen(budget: float) -> tuple[nn.Module, object, list[str | None]]:
    data = [torch.randn(4, 128, generator=torch.Generator().manual_seed(i)) for i in range(2)]
    model, report = torch_atalla.quantize(network(), data, budget=budget)
    return model, report, [layer.encoding for layer in report.layers]


def test_budgets() -> None:
    """A larger budget gives fewer cycles; the loss is measured again here."""
    data = [torch.randn(4, 128, generator=torch.Generator().manual_seed(i)) for i in range(2)]
    expected = torch.cat([network()(x) for x in data])
    cycles = []
    for budget in (0.0, 1e-4, 1e-2, 10.0):
        model, report, _ = chosen(budget)
        found = torch.cat([model(x) for x in data])
        loss = ((found - expected).double().square().sum() / expected.double().square().sum()).item()
        assert loss == pytest.approx(report.loss, rel=1e-3, abs=1e-12)
        assert loss <= budget
        cycles.append(report.cycles)
    assert cycles == sorted(cycles, reverse=True) and cycles[0] == report.cycles_before
    assert chosen(0.0)[2] == [None] * 3 and chosen(10.0)[2] == ["int4"] * 3


def test_sensitive_layer() -> None:
    """The layer with outliers keeps more bits than the others. The choice is deterministic, and the report a table."""
    model, report, encodings = chosen(3e-2)
    assert encodings == ["int4", "int8", "int4"]
    assert [type(layer) for layer in model][::2].count(QuantizedLinear) == sum(e is not None for e in encodings)
    assert chosen(3e-2)[2] == encodings
    lines = str(report).splitlines()
    assert lines[0].split() == ["layer", "encoding", "loss", "alone", "cycles", "before", "cycles"]
    assert len(lines) == 6 and "of a budget of 3.00e-02" in lines[-1]


def test_own_loss_and_errors() -> None:
    model, report = torch_atalla.quantize(network(), [torch.randn(2, 128)], budget=1.0, loss=lambda m: 0.5, group=32)
    assert report.loss == 0.5 and all(layer.encoding == "int4" for layer in report.layers)
    with pytest.raises(ValueError, match="expected data"):
        torch_atalla.quantize(network(), [])
    with pytest.raises(ValueError, match="expected an encoding"):
        torch_atalla.quantize(network(), [torch.randn(2, 128)], encodings=["int2"])
