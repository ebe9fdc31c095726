# SPDX-License-Identifier: BSD-3-Clause
"""Greedy decoding with a cache of keys and values as chip code: two methods over the same mutable buffers."""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
from torch.testing._internal.common_utils import TestCase, run_tests, slowTest

import torch_atalla

WORDS, WIDTH, HEADS, GROUPS, HIDDEN = 61, 64, 4, 2, 96


class RmsNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(x, x.shape[-1:], self.weight, 1e-5)


class Attention(nn.Module):
    """Grouped heads with rotary positions, and a cache that is written at the positions of the call."""

    keys: torch.Tensor
    values: torch.Tensor

    def __init__(self, length: int) -> None:
        super().__init__()
        head = WIDTH // HEADS
        self.q, self.o = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(2))
        self.k, self.v = (nn.Linear(WIDTH, GROUPS * head, bias=False) for _ in range(2))
        self.register_buffer("keys", torch.zeros(1, GROUPS, length, head))
        self.register_buffer("values", torch.zeros(1, GROUPS, length, head))

    def forward(self, x: torch.Tensor, at: torch.Tensor, angles: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        q, k, v = (
            layer(x).view(batch, length, heads, -1).transpose(1, 2)
            for layer, heads in ((self.q, HEADS), (self.k, GROUPS), (self.v, GROUPS))
        )
        q, k = (turned(t, angles[at]) for t in (q, k))
        self.keys.index_copy_(2, at, k)
        self.values.index_copy_(2, at, v)
        y = F.scaled_dot_product_attention(q, self.keys, self.values, mask[at], enable_gqa=True)
        return self.o(y.transpose(1, 2).reshape(batch, length, WIDTH))


def turned(x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
    a, b = x.chunk(2, -1)
    cos, sin = angles[..., 0], angles[..., 1]
    return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)


class Layer(nn.Module):
    def __init__(self, length: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = RmsNorm(WIDTH), RmsNorm(WIDTH)
        self.attention = Attention(length)
        self.gate, self.up = (nn.Linear(WIDTH, HIDDEN, bias=False) for _ in range(2))
        self.down = nn.Linear(HIDDEN, WIDTH, bias=False)

    def forward(self, x: torch.Tensor, *context: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x), *context)
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):
    """Gives the next word after the words at positions `at`."""

    angles: torch.Tensor
    mask: torch.Tensor

    def __init__(self, layers: int, length: int) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(Layer(length) for _ in range(layers))
        self.norm, self.head = RmsNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)
        half = WIDTH // HEADS // 2
        turn = torch.outer(torch.arange(length), 100.0 ** (-torch.arange(half) / half))
        self.register_buffer("angles", torch.stack([turn.cos(), turn.sin()], -1))
        self.register_buffer("mask", torch.ones(length, length, dtype=torch.bool).tril())

    def scores(self, words: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        x = self.words(words)
        for layer in self.layers:
            x = layer(x, at, self.angles, self.mask)
        return self.head(self.norm(x))

    def forward(self, words: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        return self.scores(words, at)[:, -1:].argmax(-1)


def learn(decoder: Decoder) -> None:
    """Words that follow one another by a rule, so that the best word is clearly the best."""
    optimizer = torch.optim.AdamW(decoder.parameters(), 5e-3)
    for _ in range(120):
        words = (torch.randint(WORDS, (1, 1)) + 7 * torch.arange(9)) % WORDS
        loss = F.cross_entropy(decoder.scores(words[:, :-1], torch.arange(8))[0], words[0, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for layer in decoder.layers:  # of this step's graph
            layer.attention.keys.detach_(), layer.attention.values.detach_()
    with torch.no_grad():
        for layer in decoder.layers:
            layer.attention.keys.zero_(), layer.attention.values.zero_()


class Decode(nn.Module):
    """The same module as another method."""

    def __init__(self, decoder: Decoder) -> None:
        super().__init__()
        self.decoder = decoder

    def forward(self, words: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        return self.decoder(words, at)


def decoded(path: Path, engine: str, prompt: torch.Tensor, count: int) -> tuple[list[int], int]:
    """The words after the prompt, and the cycles of chip code."""
    program = torch_atalla.load_loadable(path, engine=engine)
    start = prompt.shape[1]
    word = program.methods["prefill"](prompt.to("atalla"), torch.arange(start).to("atalla"))
    words, cycles = [int(word)], 0
    for position in range(start, start + count - 1):
        word = program.methods["decode"](word, torch.tensor([position]).to("atalla"))
        words.append(int(word))
        cycles += program.stats.cycles if engine == "isa" else 0
    return words, cycles


class TestDecoding(TestCase):
    def decode(self, layers: int, count: int) -> None:
        torch.manual_seed(0)
        prompt = (3 + 7 * torch.arange(7)[None]) % WORDS
        decoder = Decoder(layers, 8 + count)
        learn(decoder)
        model = Decode(decoder.bfloat16().eval())
        methods = {
            name: torch.export.export(model, (words, torch.arange(words.shape[1])), strict=False)
            for name, words in (("prefill", prompt), ("decode", prompt[:, :1]))
        }
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "decoder.atl"
            report = torch_atalla.save_loadable(methods, path, engine="isa", fallback="error")
            self.assertEqual(report.engine, "isa")
            expected, _ = decoded(path, "functional", prompt, count)
            found, cycles = decoded(path, "isa", prompt, count)
        self.assertEqual(found, expected)
        self.assertEqual(found, [(3 + 7 * (7 + i)) % WORDS for i in range(count)])
        self.assertGreater(cycles, 0)

    def test_tokens(self):
        self.decode(1, 12)

    @slowTest
    def test_128_tokens(self):
        self.decode(2, 128)


if __name__ == "__main__":
    run_tests()
