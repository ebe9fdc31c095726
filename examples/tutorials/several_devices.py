# SPDX-License-Identifier: BSD-3-Clause
"""Training on several devices: two processes with one device each. DistributedDataParallel averages the gradients.

python examples/tutorials/several_devices.py

docs/guides/distributed.md describes FSDP2, DTensor and the other collectives. examples/ddp_gpt.py trains a GPT.
"""

import socket

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import torch_atalla

RANKS, STEPS = 2, 4


def batch(rank: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The rank's part of the data: 16 rows of 8 features, and their sums."""
    x = torch.randn(16 * RANKS, 8, generator=torch.Generator().manual_seed(1)).chunk(RANKS)[rank]
    return x, x.sum(1, keepdim=True)


def train(rank: int, port: int) -> None:
    torch_atalla.fallback.mode("error")
    torch.atalla.set_device(rank)
    device = torch.device("atalla", rank)
    dist.init_process_group(init_method=f"tcp://localhost:{port}", rank=rank, world_size=RANKS, device_id=device)
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(8, 1).to("atalla"), device_ids=[rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, target = (part.to("atalla") for part in batch(rank))
    for step in range(STEPS):
        loss = torch.nn.functional.mse_loss(model(x), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        dist.all_reduce(loss.detach(), op=dist.ReduceOp.AVG)
        if rank == 0:
            print(f"step {step}: loss {loss.item():.4f}", flush=True)

    # Every rank has the same parameters.
    weight = model.module.weight.detach()
    gathered = [torch.empty_like(weight) for _ in range(RANKS)]
    dist.all_gather(gathered, weight)
    if rank == 0:
        print(f"{RANKS} ranks, backend {dist.get_backend()}, on {weight.device.type}")
        print("the same parameters on each rank:", torch.equal(gathered[0].cpu(), gathered[1].cpu()))
    dist.destroy_process_group()


if __name__ == "__main__":
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    torch.multiprocessing.spawn(train, args=(port,), nprocs=RANKS)
