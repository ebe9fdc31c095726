# SPDX-License-Identifier: BSD-3-Clause
"""Training in several processes
=============================

A small GPT trained by several processes, each with an atalla device of its own.

Usage::

    torchrun --nproc-per-node 2 examples/ddp_gpt.py                  # DistributedDataParallel
    torchrun --nproc-per-node 2 examples/ddp_gpt.py --strategy fsdp  # fully_shard (FSDP2)
    python examples/ddp_gpt.py                                       # one process

Every process takes its part of each batch. Rank 0 prints the loss of each step, then trains the same model alone and
checks that the losses and the final parameters are the same within rounding.
"""

from __future__ import annotations

import argparse
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

TEXT = "the chip counts cycles and bytes; the same program gives the same cycles on any machine. "
CONTEXT, BATCH, STEPS = 16, 12, 8


class Block(nn.Module):
    """Pre-norm transformer block with causal attention: (batch, time, width) to the same."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query_key_value, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in self.query_key_value(self.norm1(x)).chunk(3, -1)
        )
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.projection(mixed.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    """Logits of the next character: int64 (batch, time) to float (batch, time, words)."""

    def __init__(self, words: int, width: int = 32, heads: int = 4, layers: int = 2):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(words, width), nn.Embedding(CONTEXT, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens) + self.positions.weight[: tokens.size(1)]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def corpus() -> tuple[torch.Tensor, int]:
    """The text as numbers, and how many different characters it has."""
    letters = sorted(set(TEXT))
    return torch.tensor([letters.index(c) for c in TEXT * 8]), len(letters)


def batch(data: torch.Tensor, step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs and targets of a step, both (BATCH, CONTEXT), the same in every process."""
    generator = torch.Generator().manual_seed(step)
    starts = torch.randint(len(data) - CONTEXT - 1, (BATCH,), generator=generator)
    rows = torch.stack([data[s : s + CONTEXT + 1] for s in starts.tolist()])
    return rows[:, :-1], rows[:, 1:]


def new_model(words: int, device: torch.device) -> GPT:
    torch.manual_seed(0)
    return GPT(words).to(device)


def train(model: nn.Module, data: torch.Tensor, device: torch.device, rank: int, world: int) -> list[float]:
    """Losses of the whole batches, one a step; the process computes its share of each."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
    losses = []
    for step in range(STEPS):
        inputs, targets = (part.chunk(world)[rank].to(device) for part in batch(data, step))
        optimizer.zero_grad()
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        loss.backward()
        optimizer.step()
        mean = loss.detach()
        if world > 1:
            dist.all_reduce(mean, dist.ReduceOp.AVG)
        losses.append(mean.item())
    return losses


def full(parameter: torch.Tensor) -> torch.Tensor:
    return parameter.full_tensor() if isinstance(parameter, DTensor) else parameter


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strategy", choices=["ddp", "fsdp"], default="ddp")
    arguments = parser.parse_args()

    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    local_rank = int(os.environ.get("LOCAL_RANK", 0))
    device = torch.device("atalla", local_rank % torch.accelerator.device_count())
    torch.accelerator.set_device_index(device)
    data, words = corpus()

    if world == 1:
        losses = train(new_model(words, device), data, device, 0, 1)
        print("\n".join(f"step {step}: loss {loss:.6f}" for step, loss in enumerate(losses)))
        return

    dist.init_process_group(device_id=device)  # without a name: accl, the default backend of atalla
    model: nn.Module = new_model(words, device)
    if arguments.strategy == "ddp":
        model = DistributedDataParallel(model, device_ids=[device.index])
    else:
        mesh = init_device_mesh("atalla", (world,))
        for block in model.blocks:
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
    losses = train(model, data, device, rank, world)
    parameters = [full(p).detach().cpu() for p in model.parameters()]

    if rank == 0:
        print("\n".join(f"step {step}: loss {loss:.6f}" for step, loss in enumerate(losses)))
        alone = new_model(words, device)
        expected = train(alone, data, device, 0, 1)
        torch.testing.assert_close(torch.tensor(losses), torch.tensor(expected), rtol=1e-4, atol=1e-5)
        for found, wanted in zip(parameters, alone.parameters()):
            torch.testing.assert_close(found, wanted.detach().cpu(), rtol=1e-3, atol=1e-4)
        print(f"ok: {arguments.strategy} on {world} processes equals one process")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
