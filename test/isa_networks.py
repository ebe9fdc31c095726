# SPDX-License-Identifier: BSD-3-Clause
"""The networks that run wholly as Atalla code, at full size, with the architectures of their papers."""

from __future__ import annotations

import models
import torch
import torch.nn.functional as F
from torch import nn


def alexnet() -> nn.Module:
    def features():
        yield from (nn.Conv2d(3, 64, 11, 4, 2), nn.ReLU(), nn.MaxPool2d(3, 2))
        yield from (nn.Conv2d(64, 192, 5, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2))
        for c, o in ((192, 384), (384, 256), (256, 256)):
            yield from (nn.Conv2d(c, o, 3, padding=1), nn.ReLU())
        yield nn.MaxPool2d(3, 2)

    head = [nn.AdaptiveAvgPool2d(6), nn.Flatten(), nn.Dropout(), nn.Linear(9216, 4096), nn.ReLU()]
    return nn.Sequential(*features(), *head, nn.Dropout(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 1000))


class Residual(nn.Module):
    def __init__(self, c: int, o: int, stride: int) -> None:
        super().__init__()
        self.first, self.norm1 = nn.Conv2d(c, o, 3, stride, 1, bias=False), nn.BatchNorm2d(o)
        self.second, self.norm2 = nn.Conv2d(o, o, 3, 1, 1, bias=False), nn.BatchNorm2d(o)
        self.short = nn.Identity()
        if stride != 1 or c != o:
            self.short = nn.Sequential(nn.Conv2d(c, o, 1, stride, bias=False), nn.BatchNorm2d(o))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm2(self.second(F.relu(self.norm1(self.first(x)))))
        return F.relu(y + self.short(x))


def resnet18() -> nn.Module:
    layers: list[nn.Module] = [
        nn.Conv2d(3, 64, 7, 2, 3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
    ]
    width = 64
    for o, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [Residual(width, o, stride), Residual(o, o, 1)]
        width = o
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))
    generator = torch.Generator().manual_seed(1)
    for module in model.modules():  # as after training, not the identity
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1, generator=generator)
            module.running_var.uniform_(0.5, 1.5, generator=generator)
    return model


class VitTiny(nn.Module):
    def __init__(self, width: int = 192, heads: int = 3, depth: int = 12) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.token = nn.Parameter(torch.randn(1, 1, width) * 0.02)
        self.position = nn.Parameter(torch.randn(1, 197, width) * 0.02)
        self.blocks = nn.Sequential(*(models.VitBlock(width, heads) for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.position
        return self.head(self.norm(self.blocks(x))[:, 0])


def gpt() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """Four layers, random weights."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        n_layer=4, n_embd=128, n_head=4, vocab_size=512, n_positions=128, bos_token_id=0, eos_token_id=0
    )
    config._attn_implementation = "sdpa"
    return models.Logits(GPT2LMHeadModel(config)).eval(), (torch.randint(0, 512, (1, 64)),)


def image_network(name: str) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    torch.manual_seed(0)
    model = {"alexnet": alexnet, "resnet18": resnet18, "vit_tiny": VitTiny}[name]()
    return model.eval(), (torch.randn(1, 3, 224, 224),)
