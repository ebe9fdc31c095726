# SPDX-License-Identifier: BSD-3-Clause
"""Quantized products in chip code: what is refused, and what today's instructions do (benchmarks/isa_quantized.py)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from benchmarks import isa_quantized
from torch_atalla import isa, load_loadable, save_loadable
from torch_atalla.compiler.targets.chip.network import NoProgramError
from torch_atalla.quantization import quantize_weights


def test_pairs_are_exact() -> None:
    """All pairs of weights fit a bfloat16 number, and round to their parts."""
    weight = torch.cartesian_prod(torch.arange(-7, 8), torch.arange(-7, 8))
    weight = torch.nn.functional.pad(weight, (0, 0, 0, 31))[:256].reshape(8, 32, 2).transpose(1, 2).reshape(1, -1)
    stored = isa_quantized.high_and_low(weight)
    high = (stored / 16 + 192) - 192
    low = stored - 16 * high
    assert torch.equal(torch.stack([high.view(8, 32), low.view(8, 32)], 1).reshape(1, -1).long(), weight)


def test_cycles() -> None:
    """Half of the traffic gives nearly half of the cycles; the scalar core is no way to convert."""
    found = {result.name: result for result in isa_quantized.results()}
    base, pairs = found["bfloat16"], found["-7 to 7, two per bfloat16"]
    assert max(base.error, pairs.error) < 0.01  # of products in float64
    assert pairs.cycles <= 0.6 * base.cycles
    assert found["int8, converted by the scalar core"].cycles > 2 * base.cycles
    assert not isa.check(isa_quantized.program(256, True))


def bytes_of(*sizes: int) -> torch.Tensor:
    return torch.randint(-128, 128, sizes, dtype=torch.int8, generator=torch.Generator().manual_seed(sum(sizes)))


class Product(nn.Module):
    def __init__(self, function: Callable[..., torch.Tensor], weight: torch.Tensor, outside: int = 0) -> None:
        super().__init__()
        self.function = function
        self.register_buffer("weight", weight)
        self.register_buffer("outside", torch.tensor(outside))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x, self.weight, self.outside)


def convolution(x: torch.Tensor, weight: torch.Tensor, outside: torch.Tensor | None, *more: Any) -> torch.Tensor:
    bias = torch.arange(weight.shape[0] if not more[3] else weight.shape[1], dtype=torch.int32, device=x.device) * -999
    return torch.ops.atalla.int_convolution(x, weight, bias, outside, *more)


PRODUCTS: dict[str, tuple[Callable[..., torch.Tensor], torch.Tensor, torch.Tensor]] = {
    "matrices": (lambda x, w, _: torch._int_mm(x, w), bytes_of(5, 96), bytes_of(96, 40)),
    "images": (
        lambda x, w, z: convolution(x, w, z, [1, 2], [1, 2], [2, 1], False, [0, 0], 2),
        bytes_of(2, 4, 7, 9),
        bytes_of(6, 2, 3, 3),
    ),
    "images without a border": (
        lambda x, w, _: convolution(x, w, None, [1], [1], [1], False, [0], 1),
        bytes_of(2, 3, 9),
        bytes_of(4, 3, 3),
    ),
    "transposed": (
        lambda x, w, _: convolution(x, w, None, [2, 2], [1, 1], [1, 1], True, [1, 1], 1),
        bytes_of(1, 3, 4, 4),
        bytes_of(3, 4, 3, 3),
    ),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_of_bytes_are_exact(name: str, tmp_path: Path) -> None:
    """On the scalar core, the only unit that multiplies integers."""
    function, x, weight = PRODUCTS[name]
    model = Product(function, weight, -77)
    report = save_loadable(torch.export.export(model, (x,)), tmp_path / "m.atl", engine="isa")
    assert report.code["scalar_calls"] > 0
    assert torch.equal(load_loadable(tmp_path / "m.atl", engine="isa")(x.to("atalla")).cpu(), model(x))


@pytest.mark.parametrize("encoding", ["int8", "int4", "float8_e4m3fn"])
def test_encoded_weights_have_no_code(encoding: str, tmp_path: Path) -> None:
    """The error names each layer and what to do. Without the code, the file is saved."""
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8)).bfloat16().eval()
    quantize_weights(model, encoding)
    program = torch.export.export(model, (torch.randn(2, 64).bfloat16(),))
    with pytest.raises(NoProgramError, match="no instruction converts bytes to lanes; decode the weights") as error:
        save_loadable(program, tmp_path / "m.atl", engine="isa")
    assert "node quantized_linear," in str(error.value) and "node quantized_linear_1," in str(error.value)
    assert not (tmp_path / "m.atl").exists()
    assert save_loadable(program, tmp_path / "m.atl", fallback="error").kernels["gemm_quantized"] == 2


@pytest.mark.parametrize("activations", ["static", "dynamic"])
def test_lowered_graphs(activations: str, tmp_path: Path) -> None:
    """Linear layers and convolutions of PT2E, close to the graph in float32."""
    pytest.importorskip("torchao")
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    from torch_atalla.quantization.pt2e import AtallaQuantizer, lower_pt2e

    torch.manual_seed(0)
    layers = nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(64, 8)
    model, x = nn.Sequential(*layers).eval(), torch.randn(2, 3, 4, 4) + 0.5
    prepared = prepare_pt2e(torch.export.export(model, (x,)).module(), AtallaQuantizer(activations=activations))
    with torch.no_grad():
        exact = prepared(x)
        program = torch.export.export(lower_pt2e(convert_pt2e(prepared)), (x,))
        save_loadable(program, tmp_path / "m.atl", engine="isa", convert="bfloat16")
        found = load_loadable(tmp_path / "m.atl", engine="isa")(x.bfloat16().to("atalla")).cpu().float()
    assert (found - exact).norm() < 0.05 * exact.norm()
