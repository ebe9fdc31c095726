# SPDX-License-Identifier: BSD-3-Clause
"""Simulated cycles and DRAM traffic of residual blocks whose convolutions read int8 images and weights."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

import torch_atalla
from torch_atalla.quantization.pt2e import AtallaQuantizer, lower_pt2e

from .measure import Cost, measure


class Block(nn.Module):
    """Two 3 x 3 convolutions with a shortcut, as in ResNet-18. The normalizations are folded beforehand."""

    def __init__(self, inner: int, outer: int, stride: int) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(inner, outer, 3, stride, 1), nn.Conv2d(outer, outer, 3, 1, 1)
        self.shortcut = nn.Conv2d(inner, outer, 1, stride) if stride > 1 else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (self.second(self.first(x).relu()) + self.shortcut(x)).relu()


@dataclass(frozen=True)
class Result:
    name: str
    cost: Cost  # of the loadable
    same_bits: bool  # in eager mode
    error: float  # relative to the result in float32


def blocks(channels: int = 64, blocks: int = 3) -> nn.Module:
    """Each block has twice the channels of the one before."""
    torch.manual_seed(0)
    widths = [(channels << max(0, i - 1), channels << i, 1 + (i > 0)) for i in range(blocks)]
    return nn.Sequential(*(Block(*width) for width in widths)).eval()


def results(model: nn.Module, x: torch.Tensor, folder: Path) -> Iterator[Result]:
    with torch.no_grad():
        exact = model(x)
    yield _result("float32", copy.deepcopy(model), x, exact, folder)
    yield _result("bfloat16", copy.deepcopy(model).bfloat16(), x.bfloat16(), exact, folder)
    for activations in ("static", "dynamic"):
        exported = torch.export.export(copy.deepcopy(model), (x,)).module()
        prepared = prepare_pt2e(exported, AtallaQuantizer(activations=activations))
        prepared(x)
        yield _result(f"int8, {activations} ranges", lower_pt2e(convert_pt2e(prepared)), x, exact, folder)


def _result(name: str, model: nn.Module, x: torch.Tensor, exact: torch.Tensor, folder: Path) -> Result:
    with torch.no_grad():
        exported = torch.export.export(model, (x,))
        torch_atalla.save_loadable(exported, folder / "blocks.atl", fallback="error", golden=False)
    given = (x.to("atalla"),)
    cost, found = measure(torch_atalla.load_loadable(folder / "blocks.atl", device="atalla"), given)
    _, eager = measure(model.to("atalla"), given)
    error = ((found.float() - exact).norm() / exact.norm()).item()
    return Result(name, cost, torch.equal(found, eager), error)
