# SPDX-License-Identifier: BSD-3-Clause
"""Small forms of eight classic image networks, written after their papers: torchvision's CPU wheel is not on PyPI.

Name -> a function that gives a module with random weights and its inputs, as in model_zoo. Widths are an eighth to a
quarter of the papers', images have 64 x 64 pixels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

CLASSES = 10


def image(size: int = 64) -> dict[str, Any]:
    return {"input": torch.randn(2, 3, size, size)}


class Unit(nn.Sequential):
    """Convolution, batch norm, activation."""

    def __init__(self, c: int, to: int, kernel: int = 1, stride: int = 1, groups: int = 1, act: Any = nn.ReLU) -> None:
        layers = [nn.Conv2d(c, to, kernel, stride, kernel // 2, groups=groups, bias=False), nn.BatchNorm2d(to)]
        super().__init__(*layers, *([act()] if act else []))


class Residual(nn.Module):
    def __init__(self, branch: nn.Module) -> None:
        super().__init__()
        self.branch = branch

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.branch(x)


class Branches(nn.Module):
    """Results of all branches beside one another; `keep`: behind the input."""

    def __init__(self, *branches: nn.Module, keep: bool = False) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)
        self.keep = keep

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([*([x] if self.keep else []), *(branch(x) for branch in self.branches)], 1)


class SqueezeExcite(nn.Module):
    def __init__(self, c: int, gate: nn.Module) -> None:
        super().__init__()
        self.scale = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(c, c // 4, 1), nn.ReLU(), nn.Conv2d(c // 4, c, 1))
        self.gate = gate

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.gate(self.scale(x))


class Network(nn.Module):
    """Features, pooled to a vector, and a linear classifier. Its argument is called `input`."""

    def __init__(self, c: int, *features: nn.Module) -> None:
        super().__init__()
        self.features = nn.Sequential(*features)
        self.head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(c, CLASSES))

    def forward(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002
        return self.head(self.features(input))


def alexnet() -> nn.Module:
    def layer(c: int, to: int, kernel: int, stride: int = 1) -> list[nn.Module]:
        return [nn.Conv2d(c, to, kernel, stride, kernel // 2), nn.ReLU()]

    first = [*layer(3, 16, 11, 4), nn.MaxPool2d(3, 2), *layer(16, 48, 5), nn.MaxPool2d(3, 2)]
    return Network(64, *first, *layer(48, 96, 3), *layer(96, 64, 3), *layer(64, 64, 3))


def vgg() -> nn.Module:
    layers: list[nn.Module] = []
    c = 3
    for to, count in ((16, 1), (32, 1), (64, 2), (64, 2)):
        for _ in range(count):
            layers += [nn.Conv2d(c, to, 3, 1, 1), nn.ReLU()]
            c = to
        layers.append(nn.MaxPool2d(2))
    return Network(c, *layers)


def squeezenet() -> nn.Module:
    def fire(c: int, squeeze: int, to: int) -> nn.Module:
        wide = Branches(
            nn.Sequential(nn.Conv2d(squeeze, to, 1), nn.ReLU()),
            nn.Sequential(nn.Conv2d(squeeze, to, 3, 1, 1), nn.ReLU()),
        )
        return nn.Sequential(nn.Conv2d(c, squeeze, 1), nn.ReLU(), wide)

    first = [nn.Conv2d(3, 16, 3, 2), nn.ReLU(), nn.MaxPool2d(3, 2, ceil_mode=True)]
    return Network(64, *first, fire(16, 8, 16), fire(32, 8, 16), nn.MaxPool2d(3, 2, ceil_mode=True), fire(32, 16, 32))


def googlenet() -> nn.Module:
    def inception(c: int, to: int) -> nn.Module:
        return Branches(
            Unit(c, to),
            nn.Sequential(Unit(c, to), Unit(to, to, 3)),
            nn.Sequential(Unit(c, to // 2), Unit(to // 2, to, 3)),
            nn.Sequential(nn.MaxPool2d(3, 1, 1, ceil_mode=True), Unit(c, to)),
        )

    return Network(96, Unit(3, 16, 7, 2), nn.MaxPool2d(3, 2), inception(16, 16), inception(64, 24), nn.MaxPool2d(2))


def densenet() -> nn.Module:
    def layer(c: int) -> nn.Module:
        before = nn.Sequential(nn.BatchNorm2d(c), nn.ReLU(), nn.Conv2d(c, 32, 1, bias=False))
        return Branches(nn.Sequential(before, nn.BatchNorm2d(32), nn.ReLU(), nn.Conv2d(32, 8, 3, 1, 1)), keep=True)

    def transition(c: int) -> nn.Module:
        return nn.Sequential(nn.BatchNorm2d(c), nn.ReLU(), nn.Conv2d(c, c // 2, 1, bias=False), nn.AvgPool2d(2))

    block = [layer(16), layer(24), layer(32), transition(40), layer(20), layer(28), nn.BatchNorm2d(36), nn.ReLU()]
    return Network(36, Unit(3, 16, 7, 2), nn.MaxPool2d(3, 2, 1), *block)


def shufflenet() -> nn.Module:
    class Block(nn.Module):
        def __init__(self, c: int) -> None:
            super().__init__()
            half = c // 2
            depth = Unit(half, half, 3, groups=half, act=None)
            self.branch = nn.Sequential(Unit(half, half), depth, Unit(half, half))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            kept, given = x.chunk(2, 1)
            return nn.functional.channel_shuffle(torch.cat([kept, self.branch(given)], 1), 2)

    def down(c: int) -> nn.Module:
        left = nn.Sequential(Unit(c, c, 3, 2, groups=c, act=None), Unit(c, c))
        return Branches(left, nn.Sequential(Unit(c, c), Unit(c, c, 3, 2, groups=c, act=None), Unit(c, c)))

    return Network(64, Unit(3, 16, 3, 2), nn.MaxPool2d(3, 2, 1), down(16), Block(32), Block(32), down(32), Block(64))


def _inverted(c: int, wide: int, to: int, kernel: int, stride: int, act: Any, squeeze: Any) -> nn.Module:
    layers: list[nn.Module] = [Unit(c, wide, act=act), Unit(wide, wide, kernel, stride, groups=wide, act=act)]
    layers += [SqueezeExcite(wide, squeeze())] if squeeze else []
    block = nn.Sequential(*layers, Unit(wide, to, act=None))
    return Residual(block) if stride == 1 and c == to else block


def mobilenet() -> nn.Module:
    act = nn.Hardswish
    blocks = [
        _inverted(16, 16, 16, 3, 2, nn.ReLU, nn.Hardsigmoid),
        _inverted(16, 64, 24, 3, 2, nn.ReLU, None),
        _inverted(24, 96, 40, 5, 2, act, nn.Hardsigmoid),
        _inverted(40, 120, 40, 5, 1, act, nn.Hardsigmoid),
    ]
    return Network(96, Unit(3, 16, 3, 2, act=act), *blocks, Unit(40, 96, act=act))


def efficientnet() -> nn.Module:
    act = nn.SiLU
    blocks = [
        _inverted(16, 16, 16, 3, 1, act, nn.Sigmoid),
        _inverted(16, 96, 24, 3, 2, act, nn.Sigmoid),
        _inverted(24, 96, 24, 3, 1, act, nn.Sigmoid),
        _inverted(24, 96, 40, 5, 2, act, nn.Sigmoid),
    ]
    return Network(128, Unit(3, 16, 3, 2, act=act), *blocks, Unit(40, 128, act=act))


def _made(build: Callable[[], nn.Module]) -> Callable[[], tuple[nn.Module, dict[str, Any]]]:
    def make() -> tuple[nn.Module, dict[str, Any]]:
        torch.manual_seed(0)
        return build().eval(), image()

    return make


NETWORKS = {
    "AlexNet": _made(alexnet),
    "DenseNet": _made(densenet),
    "EfficientNet": _made(efficientnet),
    "GoogLeNet": _made(googlenet),
    "MobileNetV3": _made(mobilenet),
    "ShuffleNetV2": _made(shufflenet),
    "SqueezeNet": _made(squeezenet),
    "VGG": _made(vgg),
}
