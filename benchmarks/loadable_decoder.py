# SPDX-License-Identifier: BSD-3-Clause
"""Greedy decoding of a Llama-like model with a KV cache: tokens a second, in eager PyTorch and as a loadable.

The loadable has two methods, prefill and decode, which share weights and keep the cache between calls. Both runtimes
decode the same prompt in one process, in turns, and must choose the same tokens.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

import torch_atalla

from .harness import Spread

PROMPT, STEPS = 64, 64  # tokens given, and then chosen


class Block(nn.Module):
    def __init__(self, width: int, heads: int, hidden: int, length: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.gate, self.up = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)
        half = width // heads // 2
        self.register_buffer("frequencies", 10000.0 ** (torch.arange(half, dtype=torch.float32) / -half))
        self.register_buffer("k", torch.zeros(1, heads, length, width // heads))
        self.register_buffer("v", torch.zeros(1, heads, length, width // heads))

    def rotate(self, x: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        half = x.shape[-1] // 2
        angles = position[:, None].float() * self.frequencies[None, :]
        cos, sin = angles.cos(), angles.sin()
        first, second = x[..., :half], x[..., half:]
        return torch.cat([first * cos - second * sin, first * sin + second * cos], -1)

    def forward(self, x: torch.Tensor, position: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        b, t, c = x.shape
        q, k, v = (y.view(b, t, self.heads, -1).transpose(1, 2) for y in self.qkv(self.norm1(x)).chunk(3, -1))
        self.k[:, :, position] = self.rotate(k, position)
        self.v[:, :, position] = v
        y = F.scaled_dot_product_attention(self.rotate(q, position), self.k, self.v, attn_mask=mask)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Decoder(nn.Module):
    """ids [1, t], position [t] -> logits [1, t, vocabulary]."""

    def __init__(self, vocabulary: int = 8192, width: int = 384, heads: int = 6, layers: int = 6) -> None:
        super().__init__()
        self.length = PROMPT + STEPS
        self.embed = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(Block(width, heads, 1024, self.length) for _ in range(layers))
        self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        mask = torch.arange(self.length)[None, :] <= position[:, None]
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x, position, mask)
        return self.head(self.norm(x))


@dataclass
class Decoding:
    """One runtime. Seconds, and tokens a second of the steps behind the first, by number of threads."""

    save_seconds: float = 0.0
    file_bytes: int = 0
    load_seconds: float = 0.0
    prefill: dict[int, Spread] = field(default_factory=dict)
    rate: dict[int, Spread] = field(default_factory=dict)
    same_tokens: bool = True


Step = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def decode(prefill: Step, step: Step, prompt: torch.Tensor, device: str) -> tuple[list[int], float, float]:
    """The tokens, the seconds of the prompt, and those of the steps behind it."""
    begin = time.perf_counter()
    logits = prefill(prompt.to(device), torch.arange(PROMPT).to(device))
    tokens = [int(logits[0, -1].argmax())]
    middle = time.perf_counter()
    for at in range(PROMPT, PROMPT + STEPS - 1):
        logits = step(torch.tensor([[tokens[-1]]]).to(device), torch.tensor([at]).to(device))
        tokens.append(int(logits[0, -1].argmax()))
    return tokens, middle - begin, time.perf_counter() - middle


@torch.no_grad()
def measure(threads: list[int], rounds: int) -> dict[str, Decoding]:
    torch.manual_seed(0)
    model, prompt = Decoder().eval(), torch.randint(0, 8192, (1, PROMPT))
    found = {"eager": Decoding(), "atalla": Decoding()}
    with tempfile.TemporaryDirectory(prefix="decoder-") as folder:
        path = Path(folder) / "model.atl"
        methods = {
            "prefill": torch.export.export(model, (prompt, torch.arange(PROMPT))),
            "decode": torch.export.export(model, (prompt[:, :1], torch.arange(1))),
        }
        begin = time.perf_counter()
        # Golden inputs are random: of positions that occur twice, anyone may stay in the cache.
        torch_atalla.save_loadable(methods, path, fallback="error", golden=False)
        found["atalla"].save_seconds, found["atalla"].file_bytes = time.perf_counter() - begin, path.stat().st_size
        begin = time.perf_counter()
        program = torch_atalla.load_loadable(path)
        found["atalla"].load_seconds = time.perf_counter() - begin
    calls = {
        "eager": (model, model, prompt, "cpu"),
        "atalla": (program["prefill"], program["decode"], prompt, "atalla"),
    }
    before = torch.get_num_threads(), torch_atalla.chip.get_num_threads()
    for number in threads:
        torch.set_num_threads(number)
        torch_atalla.chip.set_num_threads(number)
        expected = {name: decode(*call)[0] for name, call in calls.items()}  # and warms up
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
        for turn in range(rounds):
            for name in calls if turn % 2 == 0 else reversed(calls):
                _, first, rest = decode(*calls[name])
                times[name].append((first, rest))
        for name, decoding in found.items():
            decoding.prefill[number] = Spread.of([first for first, _ in times[name]])
            decoding.rate[number] = Spread.of([(STEPS - 1) / rest for _, rest in times[name]])
            decoding.same_tokens &= expected[name] == expected["eager"]
    torch.set_num_threads(before[0])
    torch_atalla.chip.set_num_threads(before[1])
    return found


def table(found: dict[str, Decoding]) -> str:
    threads = sorted(found["eager"].rate)
    head = ["runtime", "save s", "file MB", "load ms"]
    for number in threads:
        plural = "thread" if number == 1 else "threads"
        head += [f"prefill ms, {number} {plural}", f"tokens/s, {number} {plural}", "over eager"]
    lines = [
        "### llama",
        "",
        f"A Llama-like decoder, 6 layers of width 384, vocabulary 8,192, cache of {PROMPT + STEPS}: a prompt of "
        f"{PROMPT} tokens, then {STEPS - 1} steps, greedily. Median (quartiles).",
        "",
        f"| {' | '.join([*head, 'same tokens'])} |",
        "| --- |" + " ---: |" * len(head),
    ]
    for name, x in found.items():
        ours = name != "eager"
        parts = (
            [f"{x.save_seconds:.1f}", f"{x.file_bytes / 1e6:.2f}", f"{x.load_seconds * 1e3:.1f}"] if ours else [""] * 3
        )
        for number in threads:
            rate = x.rate[number]
            parts += [f"{x.prefill[number].median * 1e3:.1f}", f"{rate.median:.0f} ({rate.low:.0f} to {rate.high:.0f})"]
            parts.append(f"{rate.median / found['eager'].rate[number].median:.2f}")
        lines.append(f"| {' | '.join([name, *parts, 'yes' if x.same_tokens else 'no'])} |")
    return "\n".join([*lines, ""])
