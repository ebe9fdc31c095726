# SPDX-License-Identifier: BSD-3-Clause
"""Small networks whose training steps tests compile, with a loss and a batch of examples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

Task = tuple[nn.Module, Callable[[Any, torch.Tensor], torch.Tensor], tuple[torch.Tensor, torch.Tensor]]


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, w = x.shape
        q, k, v = (y.view(b, t, self.heads, -1).transpose(1, 2) for y in self.qkv(self.norm1(x)).split(w, -1))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.project(mixed.transpose(1, 2).reshape(b, t, w))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self, vocabulary: int, width: int, layers: int, heads: int, length: int) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        return self.head(self.norm(self.blocks(x)))


def _next_token(scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(scores.flatten(0, 1), targets.flatten())


def gpt(vocabulary: int = 64, width: int = 32, layers: int = 2, heads: int = 2, length: int = 16) -> Task:
    torch.manual_seed(0)
    model = Gpt(vocabulary, width, layers, heads, length).bfloat16()
    ids = torch.randint(0, vocabulary, (2, length))
    return model, _next_token, (ids, ids.roll(-1, 1))


class Residual(nn.Module):
    def __init__(self, channels: int, results: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, results, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(results, results, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(results), nn.BatchNorm2d(results)
        self.short: nn.Module = nn.Identity()
        if stride > 1 or channels != results:
            self.short = nn.Sequential(nn.Conv2d(channels, results, 1, stride, bias=False), nn.BatchNorm2d(results))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.short(x))


def resnet(widths: tuple[int, ...] = (32, 64), blocks: int = 1, size: int = 16, batch: int = 2) -> Task:
    """`blocks` residual blocks per stage; widths (64, 128, 256, 512) and two blocks are ResNet-18."""
    torch.manual_seed(0)
    first = [nn.Conv2d(3, widths[0], 3, 2, 1, bias=False), nn.BatchNorm2d(widths[0]), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    layers: list[nn.Module] = [*first]
    before = widths[0]
    for stage, width in enumerate(widths):
        for number in range(blocks):
            layers.append(Residual(before, width, 2 if stage and not number else 1))
            before = width
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, 10)).bfloat16()
    return model, F.cross_entropy, (torch.randn(batch, 3, size, size).bfloat16(), torch.randint(0, 10, (batch,)))
