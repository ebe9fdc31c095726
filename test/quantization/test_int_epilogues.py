# SPDX-License-Identifier: BSD-3-Clause
"""Integer products that end with the launches that read them give the bits of the launches one by one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import torch_atalla


def bytes_of(*sizes: int) -> torch.Tensor:
    return torch.randint(-128, 128, sizes, dtype=torch.int8, generator=torch.Generator().manual_seed(sum(sizes)))


def requantized(x: torch.Tensor, scale: float = 0.002) -> torch.Tensor:
    return (x * scale).round().add(-3).clamp(-128, 127).to(torch.int8)


class Product(nn.Module):
    """function(sums, scales of the channels, a residual), of the sums of a product of x and a weight."""

    def __init__(self, kind: str, function: Callable[..., Any]) -> None:
        super().__init__()
        self.kind, self.function = kind, function
        self.register_buffer("bias", torch.arange(6, dtype=torch.int32) * 1001)
        self.register_buffer("outside", torch.tensor(-7))
        self.register_buffer("scales", torch.rand(6, generator=torch.Generator().manual_seed(0)))

    def forward(self, x: torch.Tensor, weight: torch.Tensor, residual: torch.Tensor) -> Any:
        if self.kind == "matrices":
            return self.function(torch._int_mm(x, weight), self.scales, residual)
        dims, groups = x.ndim - 2, x.shape[1] // weight.shape[1]
        stride, padding, dilation = [2] + [1] * (dims - 1), [1] * dims, [1] * (dims - 1) + [2]
        border = (self.bias, self.outside) if self.kind == "images" else (None, None)
        options = [stride, padding, dilation, False, [0] * dims, groups]
        sums = torch.ops.atalla.int_convolution(x, weight, *border, *options)
        return self.function(sums, self.scales.view(-1, *[1] * dims), residual)


OPERANDS = {
    "matrices": (bytes_of(9, 70), bytes_of(70, 6)),
    "images": (bytes_of(2, 4, 9, 11), bytes_of(6, 2, 3, 3)),
    "images in a line": (bytes_of(3, 4, 19), bytes_of(6, 4, 3)),
    "volumes": (bytes_of(1, 3, 5, 6, 4), bytes_of(6, 3, 2, 3, 1)),
    "large images": (bytes_of(1, 40, 33, 35), bytes_of(6, 40, 3, 3)),
}
READERS: dict[str, Callable[..., Any]] = {
    "scaled": lambda sums, scales, y: sums.float() * scales,
    "bytes": lambda sums, scales, y: requantized((sums.float() * scales).relu()),
    "with a residual": lambda sums, scales, y: requantized(sums.float() * scales + y.cumsum(0)),
    "integers": lambda sums, scales, y: (sums * 3 + 1).abs(),
    "truth values": lambda sums, scales, y: (sums.float() * scales) > 100,
    "in bfloat16": lambda sums, scales, y: (sums.float() * scales).bfloat16(),
    "sums that are read again": lambda sums, scales, y: (requantized(sums.float() * scales), sums.sum(0)),
    "two results": lambda sums, scales, y: (requantized(sums.float() * scales), sums.float() * scales),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("kind", OPERANDS)
def test_bits(kind: str, reader: str, tmp_path: Path) -> None:
    x, weight = OPERANDS[kind]
    model = Product(kind, READERS[reader])
    with torch_atalla.fallback.mode("error"):
        sums = Product(kind, lambda sums, scales, y: sums)(x, weight, None)
        given = (x, weight, torch.arange(sums.numel(), dtype=torch.float32).view(sums.shape) % 99)
        on_device = [item.to("atalla") for item in given]
        eager = model.to("atalla")(*on_device)
        exported = torch.export.export(model.cpu(), given)
        fused = torch_atalla.save_loadable(exported, tmp_path / "m.atl", fallback="error", verify=True)
        loaded = torch_atalla.load_loadable(tmp_path / "m.atl", device="atalla")(*on_device)
    torch.testing.assert_close(loaded, eager, rtol=0, atol=0)
    torch.testing.assert_close(loaded, model(*given), rtol=1e-6, atol=1e-6, check_device=False)
    name = "gemm" if kind == "matrices" else "convolution"
    assert fused.kernels[f"{name}_fused"] == 1 and name not in fused.kernels


def test_a_residual_in_dram_stays_apart(tmp_path: Path) -> None:
    """The launch of its own reads it while it computes."""
    x, weight = OPERANDS["matrices"]
    model = Product("matrices", lambda sums, scales, y: requantized(sums.float() * scales + y))
    exported = torch.export.export(model, (x, weight, torch.rand(9, 6)))
    report = torch_atalla.save_loadable(exported, tmp_path / "m.atl", fallback="error")
    assert report.kernels == {"gemm": 1, "fused": 1}
