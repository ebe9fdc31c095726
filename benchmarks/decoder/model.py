# SPDX-License-Identifier: BSD-3-Clause
"""The Llama-like decoder of benchmarks/loadable/decoder.py: with the cache in buffers, and with the cache as arguments.

Runs in the peers' environments too: imports torch, and nothing of this project.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from .sizes import CACHE, HEADS, HIDDEN, LAYERS, LENGTH, PROMPT, VOCABULARY, WIDTH


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.gate, self.up = nn.Linear(WIDTH, HIDDEN, bias=False), nn.Linear(WIDTH, HIDDEN, bias=False)
        self.down = nn.Linear(HIDDEN, WIDTH, bias=False)
        half = WIDTH // HEADS // 2
        self.register_buffer("frequencies", 10000.0 ** (torch.arange(half, dtype=torch.float32) / -half))
        self.register_buffer("k", torch.zeros(CACHE))
        self.register_buffer("v", torch.zeros(CACHE))

    def rotate(self, x: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        half = x.shape[-1] // 2
        angles = position[:, None].float() * self.frequencies[None, :]
        cos, sin = angles.cos(), angles.sin()
        first, second = x[..., :half], x[..., half:]
        return torch.cat([first * cos - second * sin, first * sin + second * cos], -1)

    def project(self, x: torch.Tensor, position: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Queries, keys and values of the new tokens."""
        b, t, _ = x.shape
        q, k, v = (y.view(b, t, HEADS, -1).transpose(1, 2) for y in self.qkv(self.norm1(x)).chunk(3, -1))
        return self.rotate(q, position), self.rotate(k, position), v

    def attend(
        self, x: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor
    ) -> torch.Tensor:
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.out(y.transpose(1, 2).reshape(x.shape))
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Decoder(nn.Module):
    """ids [1, t], position [t] -> logits [1, t, vocabulary]. The cache stays in buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = nn.RMSNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, ids: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        mask = torch.arange(LENGTH)[None, :] <= position[:, None]
        x = self.embed(ids)
        for block in self.blocks:
            q, block.k[:, :, position], block.v[:, :, position] = block.project(x, position)
            x = block.attend(x, q, block.k, block.v, mask)
        return self.head(self.norm(x))


class Prefill(nn.Module):
    """ids [1, t], position [t] -> logits, then keys and values of each layer, as long as the cache."""

    def __init__(self, decoder: Decoder) -> None:
        super().__init__()
        self.decoder = decoder

    def forward(self, ids: torch.Tensor, position: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x, present = self.decoder.embed(ids), []
        mask = position[None, :] <= position[:, None]  # nothing is in the cache yet
        for block in self.decoder.blocks:
            q, k, v = block.project(x, position)
            x = block.attend(x, q, k, v, mask)
            present += [F.pad(y, (0, 0, 0, LENGTH - y.shape[2])) for y in (k, v)]
        return (self.decoder.head(self.decoder.norm(x)), *present)


class Step(nn.Module):
    """ids [1, 1], position [1], keys and values of each layer -> logits, then the keys and values with the new ones."""

    def __init__(self, decoder: Decoder) -> None:
        super().__init__()
        self.decoder = decoder

    def forward(self, ids: torch.Tensor, position: torch.Tensor, *past: torch.Tensor) -> tuple[torch.Tensor, ...]:
        mask = torch.arange(LENGTH)[None, :] <= position[:, None]
        x, present = self.decoder.embed(ids), []
        for i, block in enumerate(self.decoder.blocks):
            q, *new = block.project(x, position)
            # scatter and not index_put: one kernel with one copy of the cache in all of the peers
            k, v = (
                cache.scatter(2, position[None, None, :, None].expand_as(y), y)
                for cache, y in zip(past[2 * i : 2 * i + 2], new)
            )
            x = block.attend(x, q, k, v, mask)
            present += [k, v]
        return (self.decoder.head(self.decoder.norm(x)), *present)


def make(folder: Path) -> None:
    """Writes the weights and the prompt that all runtimes take."""
    torch.manual_seed(0)
    torch.save(Decoder().state_dict(), folder / "decoder.pt")
    np.save(folder / "prompt.npy", torch.randint(0, VOCABULARY, (1, PROMPT)).numpy())


def load(folder: Path) -> Decoder:
    decoder = Decoder().eval()
    decoder.load_state_dict(torch.load(folder / "decoder.pt"))
    return decoder


@torch.no_grad()
def export_with_state(decoder: Decoder) -> dict[str, torch.export.ExportedProgram]:
    """Two methods that share weights and the mutable buffers."""
    ids = torch.zeros(1, PROMPT, dtype=torch.long)
    return {
        "prefill": torch.export.export(decoder, (ids, torch.arange(PROMPT))),
        "decode": torch.export.export(decoder, (ids[:, :1], torch.arange(1))),
    }


@torch.no_grad()
def export_without_state(decoder: Decoder) -> dict[str, torch.export.ExportedProgram]:
    """The same for runtimes without mutable state: caches are arguments and results."""
    ids, cache = torch.zeros(1, PROMPT, dtype=torch.long), [torch.zeros(CACHE) for _ in range(2 * LAYERS)]
    return {
        "prefill": torch.export.export(Prefill(decoder), (ids, torch.arange(PROMPT))),
        "decode": torch.export.export(Step(decoder), (ids[:, :1], torch.arange(1), *cache)),
    }
