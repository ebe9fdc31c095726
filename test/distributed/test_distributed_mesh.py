# SPDX-License-Identifier: BSD-3-Clause
"""Four processes in a mesh of two dimensions: hybrid sharding, FSDP with tensor parallelism, pipelines, FSDP of old."""

from __future__ import annotations

import copy

import torch
import torch.distributed as dist
from distributed_suite import DistributedTest, ddp_gpt
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy, fully_shard
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn import functional as F

WORLD = 4


class TestMesh(DistributedTest):
    world_size = WORLD
    steps = 2

    def mesh(self, *names: str):
        return init_device_mesh("atalla", (2, 2), mesh_dim_names=names)

    def network(self) -> nn.Sequential:
        torch.manual_seed(3)
        return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))

    def data(self, step: int) -> torch.Tensor:
        return torch.randn(8, 8, generator=torch.Generator().manual_seed(step))

    def alone(self) -> list[torch.Tensor]:
        model = self.network()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        for step in range(self.steps):
            optimizer.zero_grad()
            model(self.data(step)).square().mean().backward()
            optimizer.step()
        return [p.detach() for p in model.parameters()]

    def train(self, model: nn.Module, parts: int, part: int) -> None:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        for step in range(self.steps):
            optimizer.zero_grad()
            model(self.data(step).chunk(parts)[part].to(self.device)).square().mean().backward()
            optimizer.step()

    def check(self, parameters) -> None:
        for found, wanted in zip(parameters, self.alone(), strict=True):
            whole = found.full_tensor() if isinstance(found, DTensor) else found
            self.assertEqual(whole.detach().cpu(), wanted, rtol=1e-4, atol=1e-5)

    def test_hybrid_sharding(self):
        mesh = self.mesh("replicate", "shard")
        model = self.network().to(self.device)
        for layer in (model[0], model[2]):
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
        self.assertEqual(model[0].weight.placements, (Replicate(), Shard(0)))
        self.assertEqual(model[0].weight.to_local().shape, (8, 8))
        self.train(model, WORLD, self.rank)
        self.check(model.parameters())

    def test_hybrid_sharding_of_a_gpt(self):
        data, words = ddp_gpt.corpus()
        model, alone = (ddp_gpt.new_model(words, self.device) for _ in range(2))
        for block in model.blocks:
            fully_shard(block, mesh=(mesh := self.mesh("replicate", "shard")))
        fully_shard(model, mesh=mesh)
        for module, parts in ((model, WORLD), (alone, 1)):
            optimizer = torch.optim.SGD(module.parameters(), lr=0.3)
            inputs, targets = (p.chunk(parts)[self.rank % parts].to(self.device) for p in ddp_gpt.batch(data, 0))
            F.cross_entropy(module(inputs).flatten(0, 1), targets.flatten()).backward()
            optimizer.step()
        for found, wanted in zip(model.parameters(), alone.parameters(), strict=True):
            self.assertEqual(found.full_tensor(), wanted, rtol=1e-4, atol=1e-5)

    def test_sharding_and_tensor_parallel(self):
        mesh = self.mesh("data", "tensor")
        model = self.network().to(self.device)
        parallelize_module(model, mesh["tensor"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
        fully_shard(model, mesh=mesh["data"])
        self.train(model, 2, mesh["data"].get_local_rank())
        self.check(model.parameters())

    def test_mesh_and_dtensor(self):
        mesh = self.mesh("rows", "columns")
        row, column = mesh.get_coordinate()
        self.assertEqual((row, column), divmod(self.rank, 2))
        t = torch.full((2,), float(self.rank), device=self.device)
        dist.all_reduce(t, group=mesh["rows"].get_group())
        self.assertEqual(t.tolist(), [float(column + column + 2)] * 2)
        a = torch.arange(48.0).view(6, 8)
        blocks = distribute_tensor(a, mesh, [Shard(0), Shard(1)])
        self.assertEqual(blocks.to_local().cpu(), a.chunk(2)[row].chunk(2, 1)[column])
        turned = blocks.redistribute(placements=[Shard(1), Shard(0)])
        self.assertEqual(turned.to_local().cpu(), a.chunk(2, 1)[row].chunk(2)[column])
        self.assertEqual((blocks @ blocks.t()).full_tensor().cpu(), a @ a.t())

    def test_mesh_by_splitting(self):
        world = dist.distributed_c10d._get_default_group()
        world.bound_device_id = self.device  # as init_process_group(device_id=...): meshes then split the group
        try:
            mesh = self.mesh("outer", "inner")
        finally:
            world.bound_device_id = None
        t = torch.full((2,), float(self.rank), device=self.device)
        dist.all_reduce(t, group=mesh["inner"].get_group())
        self.assertEqual(t.tolist(), [1.0 if self.rank < 2 else 5.0] * 2)

    def test_new_subgroups(self):
        pair, pairs = dist.new_subgroups(2, backend="accl")
        self.assertEqual(len(pairs), 2)
        t = torch.full((2,), float(self.rank), device=self.device)
        dist.all_reduce(t, group=pair)
        self.assertEqual(t.tolist(), [1.0 if self.rank < 2 else 5.0] * 2)
        cross, _ = dist.new_subgroups_by_enumeration([[0, 3], [1, 2]], backend="accl")
        dist.all_reduce(t, group=cross)
        self.assertEqual(t.tolist(), [6.0] * 2)

    def test_pipeline(self):
        layers = [nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(WORLD)]
        torch.manual_seed(5)
        for layer in layers:
            nn.init.normal_(layer[0].weight, std=0.3)
            nn.init.zeros_(layer[0].bias)
        whole = nn.Sequential(*copy.deepcopy(layers))
        stage = PipelineStage(layers[self.rank].to(self.device), self.rank, WORLD, self.device)
        schedule = ScheduleGPipe(stage, n_microbatches=4, loss_fn=lambda out, target: (out - target).square().mean())
        x, target = self.data(0), self.data(1)
        losses: list[torch.Tensor] = []
        if self.rank == 0:
            schedule.step(x.to(self.device))
        elif self.rank == WORLD - 1:
            out = schedule.step(target=target.to(self.device), losses=losses)
        else:
            schedule.step()
        wanted = whole(x)
        loss = torch.stack([(o - t).square().mean() for o, t in zip(wanted.chunk(4), target.chunk(4))])
        loss.mean().backward()
        if self.rank == WORLD - 1:
            self.assertEqual(out.cpu(), wanted)
            self.assertEqual(torch.stack(losses).cpu(), loss)
        self.assertEqual(layers[self.rank][0].weight.grad.cpu(), whole[self.rank][0].weight.grad, rtol=1e-4, atol=1e-6)

    def test_fully_sharded_data_parallel(self):
        for strategy in (ShardingStrategy.FULL_SHARD, ShardingStrategy.SHARD_GRAD_OP):
            with self.subTest(strategy=strategy):
                model = FullyShardedDataParallel(
                    self.network().to(self.device), sharding_strategy=strategy, use_orig_params=True,
                    device_id=self.device,
                )  # fmt: skip
                self.train(model, WORLD, self.rank)
                with FullyShardedDataParallel.summon_full_params(model):
                    self.check([p.detach().clone() for p in model.parameters()])
