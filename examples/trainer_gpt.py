# SPDX-License-Identifier: BSD-3-Clause
"""A training script for any accelerator
=====================================

A trainer as torchtitan's and torchtune's are built: it names no device, and combines sharded data parallelism, tensor
parallelism, activation checkpointing, bfloat16, clipping, a schedule and sharded checkpoints.

Usage::

    torchrun --nproc-per-node 2 examples/trainer_gpt.py         # FSDP2 on two ranks
    torchrun --nproc-per-node 2 examples/trainer_gpt.py --tp 2  # tensor parallelism of the MLPs
    ATALLA_DEVICE_COUNT=4 torchrun --nproc-per-node 4 examples/trainer_gpt.py --tp 2 --bf16  # both, in bfloat16

It trains twice: without interruption, and from a checkpoint in the middle. Rank 0 prints the losses of both, and those
of one process.
"""

from __future__ import annotations

import argparse
import os
import tempfile

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from ddp_gpt import GPT, batch, corpus
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn import functional as F

STEPS, MIDDLE = 8, 4
DEVICE = torch.accelerator.current_accelerator() or torch.device("cpu")


def build(words: int, mesh: DeviceMesh | None, bf16: bool) -> nn.Module:
    """The model, in parts on the ranks of `mesh` (dimensions dp, tp), or whole without one."""
    torch.manual_seed(0)
    model = GPT(words).to(DEVICE)
    for i, block in enumerate(model.blocks):
        if mesh is not None and mesh["tp"].size() > 1:
            parallelize_module(block, mesh["tp"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
        model.blocks[i] = checkpoint_wrapper(block)
    if mesh is not None:
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        for part in (*model.blocks, model):
            fully_shard(part, mesh=mesh["dp"], mp_policy=policy if bf16 else MixedPrecisionPolicy())
    return model


def clip(model: nn.Module, most: float = 1.0) -> None:
    """Scale the gradients to a norm of at most `most`. Their meshes differ under tensor parallelism."""
    norms = [torch.linalg.vector_norm(p.grad) for p in model.parameters() if p.grad is not None]
    whole = [norm.full_tensor() if isinstance(norm, DTensor) else norm for norm in norms]
    scale = most / torch.stack(whole).norm().clamp(min=most)
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad.mul_(scale)


class Trainer:
    """Model, optimizer and schedule, and the steps over the batches that a rank has a part of."""

    def __init__(self, words: int, mesh: DeviceMesh | None, bf16: bool):
        self.model = build(words, mesh, bf16)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-2)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda step: min(1.0, (step + 1) / 4))
        self.data = mesh["dp"] if mesh is not None else None
        self.autocast = torch.autocast(DEVICE.type, torch.bfloat16, enabled=bf16 and mesh is None)

    def train(self, text: torch.Tensor, first: int, last: int) -> list[float]:
        """Losses of the whole batches `first` to `last - 1`."""
        ranks, rank = (self.data.size(), self.data.get_local_rank()) if self.data is not None else (1, 0)
        losses = []
        for step in range(first, last):
            inputs, targets = (part.chunk(ranks)[rank].to(DEVICE) for part in batch(text, step))
            with self.autocast:
                loss = F.cross_entropy(self.model(inputs).flatten(0, 1).float(), targets.flatten())
            self.optimizer.zero_grad()
            loss.backward()
            clip(self.model)
            self.optimizer.step()
            self.schedule.step()
            mean = loss.detach()
            if self.data is not None:
                dist.all_reduce(mean, dist.ReduceOp.AVG, group=self.data.get_group())
            losses.append(mean.item())
        return losses

    def save(self, folder: str) -> None:
        model, optimizer = get_state_dict(self.model, self.optimizer)
        state = {"model": model, "optimizer": optimizer, "schedule": self.schedule.state_dict()}
        dcp.save(state, checkpoint_id=folder)

    def load(self, folder: str) -> None:
        model, optimizer = get_state_dict(self.model, self.optimizer)
        state = {"model": model, "optimizer": optimizer, "schedule": self.schedule.state_dict()}
        dcp.load(state, checkpoint_id=folder)
        set_state_dict(self.model, self.optimizer, model_state_dict=model, optim_state_dict=optimizer)
        self.schedule.load_state_dict(state["schedule"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tp", type=int, default=1, help="ranks that share each MLP")
    parser.add_argument("--bf16", action="store_true", help="compute in bfloat16")
    arguments = parser.parse_args()
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.accelerator.set_device_index(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group()  # the accelerator's default backend
    mesh = init_device_mesh(DEVICE.type, (world // arguments.tp, arguments.tp), mesh_dim_names=("dp", "tp"))
    text, words = corpus()

    whole = Trainer(words, mesh, arguments.bf16)
    folders = [tempfile.mkdtemp() if rank == 0 else ""]
    dist.broadcast_object_list(folders, 0)
    losses = whole.train(text, 0, MIDDLE)
    whole.save(folders[0])
    losses += whole.train(text, MIDDLE, STEPS)

    resumed = Trainer(words, mesh, arguments.bf16)
    resumed.load(folders[0])
    rest = resumed.train(text, MIDDLE, STEPS)
    if rank == 0:
        alone = Trainer(words, None, arguments.bf16).train(text, 0, STEPS)
        for step in range(STEPS):
            again = f"{rest[step - MIDDLE]:.6f}" if step >= MIDDLE else "-"
            print(f"step {step}: loss {losses[step]:.6f}, from the checkpoint {again}, one process {alone[step]:.6f}")
        tolerance = 2e-2 if arguments.bf16 else 1e-4
        torch.testing.assert_close(rest, losses[MIDDLE:], rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(losses, alone, rtol=tolerance, atol=tolerance)
        print(f"ok: {world} ranks, tp {arguments.tp}, equal one process and go on from a checkpoint")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
