# SPDX-License-Identifier: BSD-3-Clause
"""The networks that run wholly as Atalla code, at full size, with the architectures of their papers."""

from __future__ import annotations

import models
import torch
from torch import nn

from benchmarks.loadable import models as loadable_models
from tools.isa_exports import Micro


def alexnet() -> nn.Module:
    def features():
        yield from (nn.Conv2d(3, 64, 11, 4, 2), nn.ReLU(), nn.MaxPool2d(3, 2))
        yield from (nn.Conv2d(64, 192, 5, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2))
        for c, o in ((192, 384), (384, 256), (256, 256)):
            yield from (nn.Conv2d(c, o, 3, padding=1), nn.ReLU())
        yield nn.MaxPool2d(3, 2)

    head = [nn.AdaptiveAvgPool2d(6), nn.Flatten(), nn.Dropout(), nn.Linear(9216, 4096), nn.ReLU()]
    return nn.Sequential(*features(), *head, nn.Dropout(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 1000))


def gpt() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """Four layers, random weights."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        n_layer=4, n_embd=128, n_head=4, vocab_size=512, n_positions=128, bos_token_id=0, eos_token_id=0
    )
    config._attn_implementation = "sdpa"
    return models.Logits(GPT2LMHeadModel(config)).eval(), (torch.randint(0, 512, (1, 64)),)


def image_network(name: str) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    if name != "alexnet":
        return loadable_models.make(name)
    torch.manual_seed(0)
    return alexnet().eval(), (torch.randn(1, 3, 224, 224),)


def micro() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    return Micro().eval(), (torch.randn(1, 32, 32),)


# By the names of docs/concepts/isa-codegen.md.
NETWORKS = {
    "ViT-Micro (published: 119,700 instructions, 289,408 bytes)": micro,
    "GPT, 4 layers, width 128, 64 tokens": gpt,
    "MiniLM-L6, 128 tokens": lambda: loadable_models.make("minilm"),
    "ResNet-18, 224 x 224": lambda: image_network("resnet18"),
    "AlexNet, 224 x 224": lambda: image_network("alexnet"),
    "ViT-tiny, 224 x 224": lambda: image_network("vit"),
}
