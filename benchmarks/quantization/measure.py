# SPDX-License-Identifier: BSD-3-Clause
"""Simulated cycles and DRAM traffic of one decoded token, eagerly and as a loadable, with the fallback forbidden."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

import torch_atalla

from .model import Decoder, Sizes, decoder
from .variants import Variant


@dataclass(frozen=True)
class Cost:
    """Of one token."""

    cycles: int
    dram_bytes: int
    host_bytes: int  # moved between host and device


def measure(call: torch.nn.Module, arguments: tuple[torch.Tensor, ...]) -> tuple[Cost, torch.Tensor]:
    """Of the third call: the first one may upload constants. By the model of launches: no code converts bytes to
    numbers on the vector unit."""
    with torch.no_grad(), torch_atalla.fallback.mode("error"), torch_atalla.chip.clock("roofline"):
        for _ in range(3):
            torch.atalla.synchronize()
            torch_atalla.telemetry.reset()
            result = call(*arguments)
            torch.atalla.synchronize()
            found = torch_atalla.telemetry.counters()
    return Cost(
        found.cycles,
        found.dram_bytes_read + found.dram_bytes_written,
        found.host_bytes_to_device + found.host_bytes_from_device,
    ), result.cpu()


def quantized(sizes: Sizes, variant: Variant) -> Decoder:
    """The decoder on the device, in bfloat16 but for what the variant quantizes there."""
    model = decoder(sizes, dtype=torch.bfloat16, cache=variant.cache).to("atalla")
    variant.quantize(model)
    return model


def of_token(model: Decoder, folder: Path, position: int = 5) -> dict[str, tuple[Cost, torch.Tensor]]:
    """`eager` and `loadable`: the cost of a token at a position, and its logits."""
    ids, at = torch.tensor([[7]], device="atalla"), torch.tensor([position], device="atalla")
    found = {"eager": measure(model, (ids, at))}
    with torch.no_grad():
        exported = torch.export.export(model, (ids, at))
    path = folder / "decoder.atl"
    torch_atalla.save_loadable(exported, path, fallback="error", golden=False)
    found["loadable"] = measure(torch_atalla.load_loadable(path, device="atalla"), (ids, at))
    return found
