# SPDX-License-Identifier: BSD-3-Clause
"""Convolutions of PT2E's graphs on int8 operands: against the converted graph, eagerly and as loadables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

import torch_atalla

pytest.importorskip("torchao")

from torchao.quantization.pt2e import move_exported_model_to_eval  # noqa: E402
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e, prepare_qat_pt2e  # noqa: E402

from torch_atalla.quantization.pt2e import AtallaQuantizer, lower_pt2e  # noqa: E402


@pytest.fixture(autouse=True)
def native():
    with torch_atalla.fallback.mode("error"):
        yield


class Block(nn.Module):
    """A residual block, whose second convolution reads what a ReLU gives: its zero point is -128."""

    def __init__(self, inner: int, outer: int, stride: int) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(inner, outer, 3, stride, 1, bias=False), nn.Conv2d(outer, outer, 3, 1, 1, bias=False)
        self.shortcut = nn.Sequential(nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer))
        self.norms = nn.ModuleList(nn.BatchNorm2d(outer) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norms[0](self.a(x)).relu()
        return (self.norms[1](self.b(y)) + self.shortcut(x)).relu()


def residual() -> nn.Module:
    model = nn.Sequential(Block(3, 8, 2), Block(8, 16, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.normal_(module.running_mean, std=0.1)
            nn.init.uniform_(module.running_var, 0.5, 2)
    return model


def image(*sizes: int) -> torch.Tensor:
    return torch.randn(*sizes) + 0.7  # so that the zero point of the first convolution is not 0


NETS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "1d": (lambda: nn.Sequential(nn.Conv1d(4, 8, 3, padding=2, dilation=2), nn.ReLU(), nn.Conv1d(8, 4, 1)), (2, 4, 12)),
    "2d": (lambda: nn.Sequential(nn.Conv2d(4, 6, 3, 2, 1, groups=2), nn.ReLU(), nn.Conv2d(6, 6, 2)), (2, 4, 9, 11)),
    "3d": (lambda: nn.Sequential(nn.Conv3d(2, 4, 3, padding=1), nn.ReLU(), nn.Conv3d(4, 3, 2, 2)), (1, 2, 5, 6, 7)),
    "depthwise": (lambda: nn.Sequential(nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.Conv2d(8, 4, 1)), (1, 8, 7, 7)),
    "same size": (
        lambda: nn.Sequential(
            nn.Conv2d(3, 4, (3, 4), padding="same", dilation=(2, 1)), nn.Conv2d(4, 4, 2, padding="valid")
        ),
        (2, 3, 7, 8),
    ),
    "same length": (
        lambda: nn.Sequential(nn.Conv1d(3, 4, 4, padding="same"), nn.ReLU(), nn.Conv1d(4, 2, 1)),
        (2, 3, 7),
    ),
    "no batch": (lambda: nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 4, 3)), (3, 8, 8)),
    "transposed 1d": (lambda: nn.ConvTranspose1d(4, 6, 4, 2, 1, groups=2), (2, 4, 7)),
    "transposed 2d": (
        lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.ConvTranspose2d(4, 6, 3, 2, 1, 1, groups=2)),
        (2, 3, 8, 8),
    ),
    "transposed 3d": (lambda: nn.ConvTranspose3d(2, 3, 2, 2), (1, 2, 3, 4, 3)),
    "residual": (residual, (2, 3, 16, 16)),
}


def converted(model: nn.Module, x: torch.Tensor, dynamic: object = None, **options: object) -> torch.fx.GraphModule:
    exported = torch.export.export(model, (x,), dynamic_shapes=dynamic)
    prepared = prepare_pt2e(exported.module(), AtallaQuantizer(**options))  # type: ignore[arg-type]
    prepared(x)
    return convert_pt2e(prepared)


def targets(graph: torch.fx.GraphModule) -> list[str]:
    return [str(node.target) for node in graph.graph.nodes if node.op == "call_function"]


def check_bits(graph: torch.fx.GraphModule, x: torch.Tensor, path: Path) -> torch.Tensor:
    """The result on the device, which the loadable gives bit for bit, close to that of the CPU."""
    with torch.no_grad():
        cpu = graph(x)
        eager = graph.to("atalla")(x.to("atalla")).cpu()
        graph.to("cpu")
        report = torch_atalla.save_loadable(torch.export.export(graph, (x,)), path, fallback="error")
        loaded = torch_atalla.load_loadable(path, device="atalla")(x.to("atalla")).cpu()
    torch.testing.assert_close(eager, cpu, rtol=1e-4, atol=1e-5)
    assert torch.equal(loaded, eager)
    assert {"convolution", "convolution_fused"} & report.kernels.keys()
    return eager


@pytest.mark.parametrize("activations", ["static", "dynamic"])
@pytest.mark.parametrize("name", NETS)
def test_networks(name: str, activations: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    build, sizes = NETS[name]
    model, x = build().eval(), image(*sizes)
    graph = converted(model, x, activations=activations)
    with torch.no_grad():
        exact, reference = model(x), graph(x)
    count = sum("conv" in target for target in targets(graph))
    lowered = lower_pt2e(graph)
    assert targets(lowered).count("atalla.int_convolution.default") == count
    assert sum("conv" in target for target in targets(lowered)) == count
    found = check_bits(lowered, x, tmp_path / "m.atl")
    # A value next to the middle of two integers may round to the other one in a later layer.
    steps = 0.02 if name == "residual" else 1e-3
    torch.testing.assert_close(found, reference, rtol=1e-4, atol=steps * reference.abs().max().item())
    assert (found - exact).norm() < 0.05 * exact.norm()


def test_cycles(tmp_path: Path) -> None:
    """Of residual blocks: fewer than in float32, with no bytes between host and device."""
    from benchmarks.quantization.convolutions import blocks, results

    found = {result.name: result for result in results(blocks(blocks=2), torch.rand(1, 64, 28, 28), tmp_path)}
    assert all(result.same_bits and result.cost.host_bytes == 0 for result in found.values())
    exact, static = found["float32"], found["int8, static ranges"]
    assert static.cost.cycles < exact.cost.cycles and static.cost.dram_bytes < 0.6 * exact.cost.dram_bytes
    assert static.error < 0.03


@pytest.mark.parametrize("outside", ["zero", "not zero"])
def test_padding_is_real_zero(outside: str) -> None:
    """Results at the border of an image without values near zero, whose zero point is far from the middle."""
    torch.manual_seed(0)
    model = nn.Conv2d(2, 3, 3, padding=2).eval()
    x = torch.rand(1, 2, 5, 5) + (1.0 if outside == "not zero" else -0.5)
    lowered = lower_pt2e(converted(model, x))
    with torch.no_grad():
        torch.testing.assert_close(lowered(x), model(x), rtol=0, atol=0.03)


@pytest.mark.parametrize("per_channel", [False, True])
def test_dynamic_sizes(per_channel: bool, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.ConvTranspose2d(4, 3, 2, 2)).eval()
    dims = ({0: torch.export.Dim("n", min=1, max=6), 2: torch.export.Dim("h", min=4, max=16)},)
    lowered = lower_pt2e(converted(model, image(2, 3, 8, 8), dims, per_channel=per_channel))
    exported = torch.export.export(lowered, (image(2, 3, 8, 8),), dynamic_shapes=dims)
    torch_atalla.save_loadable(exported, tmp_path / "m.atl", fallback="error")
    loaded = torch_atalla.load_loadable(tmp_path / "m.atl", device="atalla")
    for n, h in ((2, 8), (1, 5), (6, 16)):
        x = image(n, 3, h, 8)
        with torch.no_grad():
            cpu, eager = lowered(x), lowered.to("atalla")(x.to("atalla")).cpu()
        lowered.to("cpu")
        torch.testing.assert_close(eager, cpu, rtol=1e-4, atol=1e-5)
        assert torch.equal(loaded(x.to("atalla")).cpu(), eager)


def test_weights_alone_keep_their_conversions() -> None:
    torch.manual_seed(0)
    model, x = nn.Conv2d(3, 4, 3).eval(), image(1, 3, 6, 6)
    graph = lower_pt2e(converted(model, x, activations="none"))
    assert "atalla.int_convolution.default" not in targets(graph)
    with torch.no_grad():
        exact = model(x)  # whose bias moves with the graph
        torch.testing.assert_close(graph.to("atalla")(x.to("atalla")).cpu(), exact, rtol=0, atol=0.05)


def test_a_weight_of_two_inputs() -> None:
    """Each has its zero point."""

    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv1d(3, 3, 3, padding=1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.conv(self.conv(x).relu())

    torch.manual_seed(0)
    model, x = Twice().eval(), image(2, 3, 9)
    graph = converted(model, x)
    with torch.no_grad():
        reference = graph(x)
        torch.testing.assert_close(lower_pt2e(graph)(x), reference, rtol=1e-4, atol=1e-3)


def test_training_with_fake_quantization() -> None:
    """The graph that prepare_qat_pt2e trained on the device, with its normalization folded."""
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU()), image(4, 3, 8, 8)
    prepared = prepare_qat_pt2e(torch.export.export(model, (x,)).module(), AtallaQuantizer(qat=True)).to("atalla")
    for _ in range(3):
        prepared(x.to("atalla"))
    prepared = prepared.to("cpu")
    move_exported_model_to_eval(prepared)
    with torch.no_grad():
        wanted = prepared(x)
        lowered = lower_pt2e(convert_pt2e(prepared))
        assert "atalla.int_convolution.default" in targets(lowered)
        assert (lowered.to("atalla")(x.to("atalla")).cpu() - wanted).norm() < 0.05 * wanted.norm()
