# SPDX-License-Identifier: BSD-3-Clause
"""A Llama-like decoder of any size, with its cache of keys and values in the model's dtype or in int8."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F


@dataclass(frozen=True)
class Sizes:
    vocabulary: int = 8192
    width: int = 384
    heads: int = 6
    layers: int = 6
    hidden: int = 1024
    length: int = 128  # of the cache


def rotary_tables(sizes: Sizes) -> tuple[torch.Tensor, torch.Tensor]:
    half = sizes.width // sizes.heads // 2
    angles = torch.arange(sizes.length)[:, None] * 10000.0 ** (torch.arange(half) / -half)
    return angles.cos(), angles.sin()


class Cache(nn.Module):
    """Keys or values [1, heads, length, width of a head] of the tokens so far."""

    def __init__(self, sizes: Sizes, dtype: torch.dtype | None = None) -> None:
        super().__init__()
        shape = (1, sizes.heads, sizes.length)
        self.register_buffer("values", torch.zeros(*shape, sizes.width // sizes.heads, dtype=dtype))
        if dtype == torch.int8:  # a scale per head and token
            self.register_buffer("scales", torch.zeros(*shape, 1))

    def forward(self, new: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        """Store new [1, heads, t, head] at `position` [t]; all that is stored."""
        if self.values.dtype != torch.int8:
            self.values[:, :, position] = new
            return self.values
        scales = new.abs().amax(-1, keepdim=True).float().clamp(min=1e-6) / 127
        self.values[:, :, position] = (new / scales).round().clamp(-127, 127).to(torch.int8)
        self.scales[:, :, position] = scales.to(self.scales.dtype)
        return (self.values.to(self.scales.dtype) * self.scales).to(new.dtype)


class Block(nn.Module):
    def __init__(self, sizes: Sizes, cache: torch.dtype | None) -> None:
        super().__init__()
        width, hidden = sizes.width, sizes.hidden
        self.heads = sizes.heads
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.gate, self.up = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)
        self.keys, self.values = Cache(sizes, cache), Cache(sizes, cache)

    def forward(
        self, x: torch.Tensor, position: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, mask: torch.Tensor | None
    ) -> torch.Tensor:
        """mask: None does without the cache, for training."""
        b, t, _ = x.shape
        q, k, v = (y.view(b, t, self.heads, -1).transpose(1, 2) for y in self.qkv(self.norm1(x)).chunk(3, -1))
        q, k = (rotate(y, cos, sin) for y in (q, k))
        if mask is not None:
            k, v = self.keys(k, position), self.values(v, position)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None)
        x = x + self.out(y.transpose(1, 2).reshape(x.shape))
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    half = x.shape[-1] // 2
    first, second = x[..., :half], x[..., half:]
    return torch.cat([first * cos - second * sin, first * sin + second * cos], -1)


class Decoder(nn.Module):
    """ids [1, t], position [t] -> logits [1, t, vocabulary]. The cache is in buffers."""

    def __init__(self, sizes: Sizes, cache: torch.dtype | None = None) -> None:
        super().__init__()
        self.sizes = sizes
        self.embed = nn.Embedding(sizes.vocabulary, sizes.width)
        self.blocks = nn.ModuleList(Block(sizes, cache) for _ in range(sizes.layers))
        self.norm, self.head = nn.RMSNorm(sizes.width), nn.Linear(sizes.width, sizes.vocabulary, bias=False)
        cos, sin = rotary_tables(sizes)
        self.register_buffer("cos", cos)
        self.register_buffer("sin", sin)

    def forward(self, ids: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        mask = torch.arange(self.sizes.length, device=ids.device)[None, :] <= position[:, None]
        return self.logits(ids, position, mask)

    def logits(self, ids: torch.Tensor, position: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        x, cos, sin = self.embed(ids), self.cos[position], self.sin[position]
        for block in self.blocks:
            x = block(x, position, cos, sin, mask)
        return self.head(self.norm(x))


def decoder(sizes: Sizes, *, dtype: torch.dtype, cache: torch.dtype | None = None) -> Decoder:
    """With weights of seed 0, in evaluation."""
    torch.manual_seed(0)
    return Decoder(sizes, cache).to(dtype).eval().requires_grad_(False)
