# SPDX-License-Identifier: BSD-3-Clause
"""`atalla::int_convolution`: the sums are those of integers, whatever lies outside of the image."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import torch_atalla

CASES = {
    "1d": dict(image=(2, 5, 19), weight=(7, 5, 3), padding=[2]),
    "2d": dict(image=(2, 4, 9, 10), weight=(6, 4, 3, 3), padding=[1, 1]),
    "3d": dict(image=(1, 3, 5, 6, 4), weight=(4, 3, 2, 3, 1), padding=[1, 2, 0], stride=[1, 2, 1]),
    "stride and dilation": dict(
        image=(1, 3, 17, 14), weight=(5, 3, 3, 2), padding=[3, 1], stride=[2, 3], dilation=[2, 1]
    ),
    "groups": dict(image=(2, 6, 8, 8), weight=(9, 2, 3, 3), padding=[1, 1], groups=3),
    "depthwise": dict(image=(1, 8, 10, 10), weight=(8, 1, 3, 3), padding=[1, 1], groups=8),
    "pointwise": dict(image=(1, 64, 7, 7), weight=(40, 64, 1, 1), padding=[0, 0]),
    "long sums": dict(image=(1, 96, 8, 8), weight=(33, 96, 3, 3), padding=[1, 1]),
    "kernel as large as the image": dict(image=(1, 3, 6, 6), weight=(4, 3, 6, 6), padding=[0, 0]),
    "padding wider than the kernel": dict(image=(1, 2, 4, 4), weight=(3, 2, 2, 2), padding=[3, 3]),
    "an empty batch": dict(image=(0, 2, 4, 4), weight=(3, 2, 2, 2), padding=[1, 1]),
}


def bias_of(channels: int) -> torch.Tensor:
    return torch.arange(channels, dtype=torch.int32) * -70001


def bytes_of(*sizes: int) -> torch.Tensor:
    return torch.randint(-128, 128, sizes, dtype=torch.int8, generator=torch.Generator().manual_seed(sum(sizes)))


def arguments(case: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor, list[Any]]:
    ones = [1] * (len(case["image"]) - 2)
    options = [case.get("stride", ones), case["padding"], case.get("dilation", ones), False, [0] * len(ones)]
    return bytes_of(*case["image"]), bytes_of(*case["weight"]), [*options, case.get("groups", 1)]


def sums(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, outside: int, options: list[Any]) -> torch.Tensor:
    """In float64, of an image that is padded beforehand."""
    stride, padding, dilation, transposed, output_padding, groups = options
    if not transposed:
        x = F.pad(x, [size for size in reversed(padding) for _ in range(2)], value=outside)
        padding = [0] * len(padding)
    x, weight, bias = x.double(), weight.double(), bias.double()
    exact = torch.convolution(x, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
    return exact.to(torch.int32)


class Convolution(nn.Module):
    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None, options: list[Any]) -> None:
        super().__init__()
        self.options = options
        self.register_buffer("weight", weight)
        self.register_buffer("bias", bias)

    def forward(self, x: torch.Tensor, outside: torch.Tensor | None) -> torch.Tensor:
        return torch.ops.atalla.int_convolution(x, self.weight, self.bias, outside, *self.options)


@pytest.fixture(autouse=True)
def native():
    with torch_atalla.fallback.mode("error"):
        yield


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("outside", [None, 0, -128, 77])
def test_sums(name: str, outside: int | None, tmp_path: Path) -> None:
    x, weight, options = arguments(CASES[name])
    bias = bias_of(len(weight))
    expected = sums(x, weight, bias, outside or 0, options)
    border = None if outside is None else torch.tensor([outside])
    model = Convolution(weight, bias, options)
    assert torch.equal(model(x, border), expected)
    given = (x.to("atalla"), None if border is None else border.to("atalla"))
    model.to("atalla")
    torch.atalla.synchronize()
    torch_atalla.telemetry.reset()
    found = model(*given)
    counters = torch_atalla.telemetry.counters()
    assert counters.host_bytes_from_device == counters.host_bytes_to_device == 0
    assert torch.equal(found.cpu(), expected) and found.is_contiguous()
    if x.numel() == 0:
        return
    assert counters.launches == 1
    exported = torch.export.export(model.cpu(), (x, border))
    report = torch_atalla.save_loadable(exported, tmp_path / "m.atl", fallback="error", verify=True)
    assert report.kernels == {"convolution": 1}
    loaded = torch_atalla.load_loadable(tmp_path / "m.atl", device="atalla")
    assert torch.equal(loaded(*given).cpu(), expected)


@pytest.mark.parametrize("dims, stride, groups", [*product((1, 2, 3), (1, 2, 3), (1, 2))])
def test_transposed(dims: int, stride: int, groups: int, tmp_path: Path) -> None:
    x, weight = bytes_of(2, 4, *(5, 4, 3)[:dims]), bytes_of(4, 3, *(3, 2, 4)[:dims])
    options = [[stride] * dims, [1] * dims, [2] * dims, True, [stride - 1] * dims, groups]
    bias = bias_of(3 * groups)
    expected = sums(x, weight, bias, 0, options)
    model = Convolution(weight, bias, options)
    assert torch.equal(model(x, None), expected)
    exported = torch.export.export(model, (x, None))
    torch_atalla.save_loadable(exported, tmp_path / "m.atl", fallback="error", verify=True)
    assert torch.equal(model.to("atalla")(x.to("atalla"), None).cpu(), expected)
    loaded = torch_atalla.load_loadable(tmp_path / "m.atl", device="atalla")
    assert torch.equal(loaded(x.to("atalla"), None).cpu(), expected)


@torch_atalla.chip.clock("roofline")
def test_cost() -> None:
    """A launch moves bytes, and multiplies as often as one in float32."""
    x, weight, options = arguments(CASES["long sums"])
    counters = []
    for dtype in (torch.int8, torch.float32):
        given = x.to("atalla", dtype), weight.to("atalla", dtype)
        torch.atalla.synchronize()
        torch_atalla.telemetry.reset()
        if dtype == torch.int8:
            torch.ops.atalla.int_convolution(*given, None, None, *options)
        else:
            torch.convolution(given[0], given[1], None, *options)
        torch.atalla.synchronize()
        counters.append(torch_atalla.telemetry.counters())
    small, large = counters
    assert small.macs == large.macs
    assert small.dram_bytes_read < 0.3 * large.dram_bytes_read
    assert small.cycles < large.cycles


@pytest.mark.parametrize(
    "change, reason",
    [
        ({"x": torch.float32}, "expected two int8 tensors"),
        ({"groups": 3}, "does not fit a weight"),
        ({"bias": torch.zeros(4)}, "expected an int32 bias of the size 4"),
        ({"bias": torch.zeros(3, dtype=torch.int32)}, "expected an int32 bias of the size 4"),
        ({"outside": torch.tensor([1, 2])}, "expected one integer for `outside`"),
        ({"outside": torch.tensor(1.0)}, "expected one integer for `outside`"),
        ({"stride": [1]}, "expected 2 values of stride"),
        ({"stride": [0, 1]}, "expected stride of at least 1"),
        ({"padding": [-1, 0]}, "expected padding of at least 0"),
        ({"transposed": True, "outside": torch.tensor([1])}, "a transposed convolution takes no `outside`"),
        ({"image": (1, 4, 2, 2)}, "larger than the padded input"),
        ({"image": (1, 4, 4, 4), "stride": [2, 2]}, "larger than the padded input"),
    ],
)
def test_errors(change: dict[str, Any], reason: str) -> None:
    x = bytes_of(*change.get("image", (1, 4, 9, 9))).to(change.get("x", torch.int8))
    given = [bytes_of(4, 4, 5, 5), change.get("bias"), change.get("outside"), change.get("stride", [1, 1])]
    given += [change.get("padding", [0, 0]), [1, 1], change.get("transposed", False), [0, 0], change.get("groups", 1)]
    on_device = [item.to("atalla") if isinstance(item, torch.Tensor) else item for item in (x, *given)]
    with pytest.raises(RuntimeError, match=reason):
        torch.ops.atalla.int_convolution(*on_device)
