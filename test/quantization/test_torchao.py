# SPDX-License-Identifier: BSD-3-Clause
"""torchao on the device: its configurations, training with fake quantization, and graphs of its PT2E flow."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from torch import nn

import torch_atalla

pytest.importorskip("torchao")

import torchao.quantization as ao  # noqa: E402
from torchao.kernel.intmm import safe_int_mm  # noqa: E402
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e, prepare_qat_pt2e  # noqa: E402

from torch_atalla.quantization.pt2e import AtallaQuantizer, lower_pt2e  # noqa: E402


@pytest.fixture(autouse=True)
def native():
    with torch_atalla.fallback.mode("error"):
        yield


CONFIGS = {
    "int8": lambda: ao.Int8WeightOnlyConfig(),
    "int8 by group": lambda: ao.Int8WeightOnlyConfig(granularity=ao.PerGroup(32)),
    "int4 by 64": lambda: ao.Int4WeightOnlyConfig(group_size=64, set_inductor_config=False),
    "float8": lambda: ao.Float8WeightOnlyConfig(set_inductor_config=False),
    "intx": lambda: ao.IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=ao.PerGroup(32)),
    "int8 activations": lambda: ao.Int8DynamicActivationInt8WeightConfig(set_inductor_config=False),
}


def layers() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 36, bias=False)).bfloat16().eval()


@pytest.mark.parametrize("name", CONFIGS)
def test_configurations(name: str, tmp_path: Path) -> None:
    """Against the model before; weights that the device reads encoded are no tensors in floating point anywhere."""
    model, x = layers(), torch.randn(3, 64).bfloat16()
    with torch.no_grad():
        exact = model(x).float()
        model = model.to("atalla")
        ao.quantize_(model, CONFIGS[name]())
        torch_atalla.telemetry.reset()
        found = model(x.to("atalla"))
        launches = {launch.kernel for launch in torch_atalla.telemetry.launches()}
        bound = 0.15 if "int4" in name or name == "intx" else 0.04
        assert (found.cpu().float() - exact).norm() <= bound * exact.norm()
        if name != "int8 activations":
            assert "gemm_quantized" in launches
        exported = torch.export.export(model, (x.to("atalla"),))
        torch_atalla.save_loadable(exported, tmp_path / "m.atl", fallback="error", golden=False)
        loaded = torch_atalla.load_loadable(tmp_path / "m.atl", device="atalla")(x.to("atalla"))
        assert torch.equal(loaded.cpu(), found.cpu())


@pytest.mark.parametrize("m, k, n", [(1, 7, 5), (3, 30, 36), (16, 64, 32)])
def test_integer_products_stay_on_the_device(m: int, k: int, n: int) -> None:
    a, b = (torch.randint(-128, 128, shape, dtype=torch.int8) for shape in ((m, k), (k, n)))
    given = a.to("atalla"), b.to("atalla")
    torch.atalla.synchronize()
    torch_atalla.telemetry.reset()
    found = safe_int_mm(*given)
    counters = torch_atalla.telemetry.counters()
    assert counters.host_bytes_from_device == counters.host_bytes_to_device == 0
    assert torch.equal(found.cpu(), a.int() @ b.int())


def test_training_with_fake_quantization() -> None:
    """QAT of torchao: losses fall, and the converted model is close to the prepared one."""
    from torchao.quantization.qat import QATConfig

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32)).to("atalla")
    x, target = torch.randn(16, 32).to("atalla"), torch.randn(16, 32).to("atalla")
    base = ao.Int8WeightOnlyConfig()
    config = QATConfig(weight_config=_weight_fake_quantize(), step="prepare")
    ao.quantize_(model, config)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    losses = []
    for _ in range(8):
        loss = nn.functional.mse_loss(model(x), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.9 * losses[0]
    with torch.no_grad():
        prepared = model(x)
        ao.quantize_(model, QATConfig(step="convert"))
        ao.quantize_(model, base)
        assert (model(x) - prepared).norm() < 0.05 * prepared.norm()


def _weight_fake_quantize():
    from torchao.quantization.qat import IntxFakeQuantizeConfig

    return IntxFakeQuantizeConfig(torch.int8, "per_channel", is_symmetric=True)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.a, self.b = nn.Linear(32, 64), nn.Linear(64, 16, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv(x).relu().flatten(2)
        return self.b(nn.functional.gelu(self.a(y[..., :32])))


def check_graph(graph: nn.Module, x: torch.Tensor, path: Path) -> tuple[torch.Tensor, dict[str, int]]:
    """Close to the CPU, and the same bits eagerly and as a loadable. The CPU's result, and the loadable's kernels."""
    with torch.no_grad():
        cpu = graph(x)
        eager = graph.to("atalla")(x.to("atalla")).cpu()
        graph.to("cpu")
        torch.testing.assert_close(eager, cpu, rtol=1e-4, atol=1e-5)
        report = torch_atalla.save_loadable(torch.export.export(graph, (x,)), path, fallback="error", golden=False)
        loaded = torch_atalla.load_loadable(path, device="atalla")(x.to("atalla")).cpu()
    assert torch.equal(loaded, eager)
    return cpu, report.kernels


@pytest.mark.parametrize("activations", ["static", "dynamic", "none"])
def test_pt2e(activations: str, tmp_path: Path) -> None:
    """Converted graphs as they are, and with int8 products of linear layers."""
    torch.manual_seed(0)
    net, x = Net().eval(), torch.randn(4, 3, 8, 8)
    exact = net(x).detach()
    prepared = prepare_pt2e(torch.export.export(net, (x,)).module(), AtallaQuantizer(activations=activations))
    prepared(x)
    converted = convert_pt2e(prepared)
    plain, kernels = check_graph(converted, x, tmp_path / "plain.atl")
    assert "gemm_quantized" not in kernels
    assert (plain - exact).norm() < 0.03 * exact.norm()
    lowered, _ = check_graph(lower_pt2e(converted), x, tmp_path / "lowered.atl")
    targets = [str(node.target) for node in converted.graph.nodes]
    product = "atalla.quantized_linear.default" if activations == "none" else "aten._int_mm.default"
    assert targets.count(product) == 2 and "aten.linear.default" not in targets
    torch.testing.assert_close(lowered, plain, rtol=1e-3, atol=1e-4)


def test_pt2e_matrix_product(tmp_path: Path) -> None:
    class Product(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x @ y

    x, y = torch.randn(6, 32), torch.randn(32, 10)
    prepared = prepare_pt2e(torch.export.export(Product(), (x, y)).module(), AtallaQuantizer())
    exact = prepared(x, y)
    graph = lower_pt2e(convert_pt2e(prepared))
    assert "aten._int_mm.default" in [str(node.target) for node in graph.graph.nodes]
    found = graph.to("atalla")(x.to("atalla"), y.to("atalla")).cpu()
    assert (found - exact).norm() < 0.03 * exact.norm()


def test_pt2e_qat() -> None:
    """Training on the device, then conversion."""
    torch.manual_seed(0)
    net, x = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4)), torch.randn(8, 16)
    target = torch.randn(8, 4).to("atalla")
    prepared = prepare_qat_pt2e(torch.export.export(net, (x,)).module(), AtallaQuantizer(qat=True)).to("atalla")
    optimizer, losses = torch.optim.SGD(prepared.parameters(), lr=0.1), []
    for _ in range(6):
        loss = nn.functional.mse_loss(prepared(x.to("atalla")), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    trained = copy.deepcopy(prepared).to("cpu")
    converted = lower_pt2e(convert_pt2e(trained))
    found = converted.to("atalla")(x.to("atalla"))
    assert (found - prepared(x.to("atalla"))).norm() < 0.1 * found.norm()


def test_quantizer_errors() -> None:
    with pytest.raises(ValueError, match='expected "static", "dynamic" or "none"'):
        AtallaQuantizer(activations="int8")
