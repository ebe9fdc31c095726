# SPDX-License-Identifier: BSD-3-Clause
"""Training on two processes equals training on one: DDP, fully_shard, DTensor, checkpoints, torchrun."""

from __future__ import annotations

import contextlib
import copy
import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from distributed_suite import ROOT, DistributedTest, ddp_gpt
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.testing._internal.common_utils import TestCase

WORLD = 2


def environment() -> dict[str, str]:
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return os.environ | {"PYTHONPATH": path, "TORCH_ATALLA_FALLBACK": "error", "OMP_NUM_THREADS": "1"}


class TestTraining(DistributedTest):
    world_size = WORLD
    steps = 3

    def gpt(self) -> tuple[ddp_gpt.GPT, torch.Tensor]:
        data, words = ddp_gpt.corpus()
        return ddp_gpt.new_model(words, self.device), data

    def step(self, model, optimizer, data, step: int, parts: int = 1, autocast: torch.dtype | None = None) -> float:
        """One step on this rank's part of the batch (the whole, with one part); the loss of the part."""
        rank = self.rank if parts > 1 else 0
        inputs, targets = (p.chunk(parts)[rank].to(self.device) for p in ddp_gpt.batch(data, step))
        with torch.autocast("atalla", autocast) if autocast else contextlib.nullcontext():
            loss = F.cross_entropy(model(inputs).flatten(0, 1).float(), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    def alone(self, autocast: torch.dtype | None = None) -> list[torch.Tensor]:
        """Parameters after the steps in one process."""
        model, data = self.gpt()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
        for step in range(self.steps):
            self.step(model, optimizer, data, step, autocast=autocast)
        return [p.detach().cpu() for p in model.parameters()]

    def check(self, model: nn.Module, rtol: float = 1e-4, atol: float = 1e-5, autocast=None) -> None:
        for found, wanted in zip(model.parameters(), self.alone(autocast), strict=True):
            self.assertEqual(ddp_gpt.full(found).detach().cpu(), wanted, rtol=rtol, atol=atol)

    def train(self, model: nn.Module, data: torch.Tensor, optimizer=None, **arguments) -> None:
        optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
        for step in range(self.steps):
            self.step(model, optimizer, data, step, parts=WORLD, **arguments)

    # ------------------------------------------------------------------------------------------ DDP
    def test_ddp(self):
        for arguments in (
            {"device_ids": [self.device.index]},
            {"bucket_cap_mb": 0.01},  # several buckets
            {"gradient_as_bucket_view": True},
            {"static_graph": True},
            {"find_unused_parameters": True},
        ):
            with self.subTest(**arguments):
                model, data = self.gpt()
                ddp = DistributedDataParallel(model, **arguments)
                self.train(ddp, data)
                self.check(ddp)

    def test_ddp_starts_from_rank_0(self):
        torch.manual_seed(self.rank)
        model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)).to(self.device)
        model[1].running_mean.fill_(float(self.rank))
        ddp = DistributedDataParallel(model)
        weights = [torch.empty_like(model[0].weight) for _ in range(WORLD)]
        dist.all_gather(weights, model[0].weight.detach())
        self.assertEqual(weights[0], weights[1])
        model[1].running_mean.fill_(float(self.rank + 5))
        ddp(torch.ones(4, 3, device=self.device))  # buffers come from rank 0 before each forward
        means = [torch.empty_like(model[1].running_mean) for _ in range(WORLD)]
        dist.all_gather(means, model[1].running_mean)
        self.assertEqual(means[0], means[1])

    def test_ddp_no_sync(self):
        model = nn.Linear(3, 2).to(self.device)
        ddp = DistributedDataParallel(model)
        x = torch.full((1, 3), self.rank + 1.0, device=self.device)
        with ddp.no_sync():
            ddp(x).sum().backward()
        self.assertEqual(model.weight.grad.cpu(), torch.full((2, 3), self.rank + 1.0))
        ddp(x).sum().backward()
        self.assertEqual(model.weight.grad.cpu(), torch.full((2, 3), 3.0))  # the mean of 2 and 4

    def test_ddp_unused_parameters(self):
        class Branches(nn.Module):
            def __init__(self):
                super().__init__()
                self.branches = nn.ModuleList(nn.Linear(2, 2, bias=False) for _ in range(3))

            def forward(self, x, k):
                return self.branches[k](x)

        ddp = DistributedDataParallel(Branches().to(self.device), find_unused_parameters=True)
        ddp(torch.ones(1, 2, device=self.device), self.rank).sum().backward()
        grads = [b.weight.grad for b in ddp.module.branches]
        self.assertEqual([g.cpu() for g in grads[:2]], [torch.full((2, 2), 0.5)] * 2)
        self.assertIsNone(grads[2])
        plain = DistributedDataParallel(Branches().to(self.device))
        plain(torch.ones(1, 2, device=self.device), 0).sum().backward()
        with self.assertRaisesRegex(RuntimeError, "Expected to have finished reduction"):
            plain(torch.ones(1, 2, device=self.device), 0)

    def test_ddp_comm_hooks(self):
        for hook, tolerance in (
            (default_hooks.allreduce_hook, 1e-4),
            (default_hooks.fp16_compress_hook, 2e-2),
        ):
            with self.subTest(hook=hook.__name__):
                model, data = self.gpt()
                ddp = DistributedDataParallel(model)
                ddp.register_comm_hook(None, hook)
                self.train(ddp, data)
                self.check(ddp, rtol=tolerance, atol=tolerance)
        model, data = self.gpt()
        ddp = DistributedDataParallel(model)
        ddp._register_builtin_comm_hook(dist.BuiltinCommHookType.FP16_COMPRESS)
        self.train(ddp, data)
        self.check(ddp, rtol=2e-2, atol=2e-2)

    @unittest.skipUnless(
        torch._C._dispatch_has_kernel_for_dispatch_key("aten::mm", "AutocastPrivateUse1"), "no autocast for atalla"
    )
    def test_ddp_autocast(self):
        model, data = self.gpt()
        ddp = DistributedDataParallel(model)
        self.train(ddp, data, autocast=torch.bfloat16)
        self.check(ddp, rtol=3e-2, atol=1e-2, autocast=torch.bfloat16)

    def test_ddp_uneven_inputs(self):
        model = nn.Linear(2, 1, bias=False).to(self.device)
        nn.init.ones_(model.weight)
        ddp = DistributedDataParallel(model)
        with ddp.join():
            for _ in range(2 + self.rank):
                model.weight.grad = None
                ddp(torch.ones(1, 2, device=self.device)).sum().backward()
        self.assertEqual(model.weight.grad.cpu(), torch.full((1, 2), 1.0 if self.rank == 0 else 0.5))

    def test_ddp_logger(self):
        model, data = self.gpt()
        ddp = DistributedDataParallel(model)
        ddp.reducer._set_ddp_runtime_logging_sample_rate(1)
        self.train(ddp, data)
        report = ddp._get_ddp_logging_data()
        self.assertEqual((report["world_size"], report["rank"]), (WORLD, self.rank))
        for key in ("avg_forward_compute_time", "avg_backward_compute_time", "backward_compute_time"):
            self.assertGreater(report[key], 0, key)

    def test_zero_redundancy_optimizer(self):
        model, data = self.gpt()
        ddp = DistributedDataParallel(model)
        optimizer = ZeroRedundancyOptimizer(ddp.parameters(), torch.optim.SGD, lr=0.3, momentum=0.9)
        self.train(ddp, data, optimizer)
        self.check(ddp)

    def test_sync_batch_norm(self):
        for dtype, shape, tolerance in (
            (torch.float32, (5, 3), 1e-5),
            (torch.float32, (6, 3, 4, 5), 1e-5),
            (torch.float64, (4, 3, 2), 1e-10),
            (torch.bfloat16, (8, 3, 4, 4), 2e-2),
        ):
            with self.subTest(dtype=dtype, shape=shape):
                torch.manual_seed(0)
                plain = nn.BatchNorm1d(3) if len(shape) < 4 else nn.BatchNorm2d(3)
                nn.init.normal_(plain.weight)
                nn.init.normal_(plain.bias)
                plain = plain.double() if dtype == torch.float64 else plain
                wide = torch.float64 if dtype == torch.float64 else torch.float32
                synced = nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(plain)).to(self.device)
                whole = torch.randn(shape, dtype=wide).add(0.5).to(dtype)
                cotangent = torch.randn(shape, dtype=wide).to(dtype)
                part = slice(0, 2) if self.rank == 0 else slice(2, None)  # of different sizes
                x = whole[part].to(self.device).requires_grad_()
                reference = whole.to(wide).requires_grad_()
                out, wanted = synced(x), plain(reference)
                out.backward(cotangent[part].to(self.device))
                wanted.backward(cotangent.to(wide))
                close = {"rtol": tolerance, "atol": tolerance}
                self.assertEqual(out.cpu().to(wide), wanted[part], **close)
                self.assertEqual(x.grad.cpu().to(wide), reference.grad[part], **close)
                self.assertEqual(synced.running_mean.cpu(), plain.running_mean, **close)
                self.assertEqual(synced.running_var.cpu(), plain.running_var, **close)
                for mine, all_of_it in zip(synced.parameters(), plain.parameters(), strict=True):
                    dist.all_reduce(mine.grad)  # as DDP would, which divides too
                    self.assertEqual(mine.grad.cpu(), all_of_it.grad, rtol=tolerance, atol=10 * tolerance)

    # ------------------------------------------------------------------------------------------ torch.compile
    def test_compiled_ddp(self):
        for order in ("around", "inside"):
            with self.subTest(order):
                torch._dynamo.reset()
                model, data = self.gpt()
                if order == "inside":
                    self.train(DistributedDataParallel(torch.compile(model)), data)
                else:
                    self.train(torch.compile(DistributedDataParallel(model)), data)
                self.check(model)

    def test_compiled_fsdp(self):
        for order in ("around", "inside"):
            with self.subTest(order):
                torch._dynamo.reset()
                model, data = self.gpt()
                mesh = init_device_mesh("atalla", (WORLD,))
                for block in model.blocks:
                    if order == "inside":
                        block.compile()
                    fully_shard(block, mesh=mesh)
                fully_shard(model, mesh=mesh)
                self.train(torch.compile(model) if order == "around" else model, data)
                self.check(model)

    # ------------------------------------------------------------------------------------------ FSDP2
    def sharded(self, **arguments):
        model, data = self.gpt()
        mesh = init_device_mesh("atalla", (WORLD,))
        for block in model.blocks:
            fully_shard(block, mesh=mesh, **arguments)
        return fully_shard(model, mesh=mesh, **arguments), data

    def test_fsdp(self):
        for arguments in ({}, {"reshard_after_forward": False}, {"reshard_after_forward": True}):
            with self.subTest(**arguments):
                model, data = self.sharded(**arguments)
                self.assertIsInstance(model.head.weight, DTensor)
                self.train(model, data)
                self.check(model)

    def test_fsdp_prefetch(self):
        model, data = self.sharded()
        first, second = model.blocks
        model.set_modules_to_forward_prefetch([first])
        first.set_modules_to_forward_prefetch([second])
        second.set_modules_to_backward_prefetch([first])
        model.set_unshard_in_backward(True)
        model.unshard(async_op=True)
        self.train(model, data)
        self.check(model)

    def test_fsdp_mixed_precision(self):
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        model, data = self.sharded(mp_policy=policy)
        self.train(model, data)
        self.assertEqual(model.head.weight.dtype, torch.float32)
        self.check(model, rtol=5e-2, atol=3e-2)

    def test_fsdp_half_gradients(self):
        policy = MixedPrecisionPolicy(param_dtype=torch.float16, reduce_dtype=torch.float16)
        model, data = self.sharded(mp_policy=policy)
        self.train(model, data)
        self.check(model, rtol=5e-2, atol=3e-2)

    def test_fsdp_divide_factor(self):
        model, data = self.sharded()
        model.set_gradient_divide_factor(WORLD * 1.0)
        for block in model.blocks:
            block.set_gradient_divide_factor(4.0)  # PREMUL_SUM
        self.train(model, data, torch.optim.SGD(model.parameters(), lr=0.0))
        plain, _ = self.gpt()
        inputs, targets = (p.to(self.device) for p in ddp_gpt.batch(data, self.steps - 1))
        F.cross_entropy(plain(inputs).flatten(0, 1), targets.flatten()).backward()
        self.assertEqual(model.blocks[0].down.weight.grad.full_tensor(), plain.blocks[0].down.weight.grad / 2)
        self.assertEqual(model.head.weight.grad.full_tensor(), plain.head.weight.grad)

    def test_fsdp_cpu_offload(self):
        model, data = self.gpt()
        mesh = init_device_mesh("atalla", (WORLD,))
        fully_shard(model, mesh=mesh, offload_policy=CPUOffloadPolicy(pin_memory=False))
        self.assertEqual(model.head.weight.device.type, "cpu")
        self.train(model, data)
        self.check(model)

    def test_fsdp_clips_gradients(self):
        model, data = self.sharded()
        self.train(model, data, torch.optim.SGD(model.parameters(), lr=0.0))
        plain, _ = self.gpt()
        inputs, targets = (p.to(self.device) for p in ddp_gpt.batch(data, self.steps - 1))
        F.cross_entropy(plain(inputs).flatten(0, 1), targets.flatten()).backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.1).full_tensor()
        self.assertEqual(norm.cpu(), nn.utils.clip_grad_norm_(plain.parameters(), 0.1).cpu(), rtol=1e-4, atol=1e-5)

    def test_hybrid_sharding(self):
        mesh = init_device_mesh("atalla", (WORLD, 1), mesh_dim_names=("replicate", "shard"))
        model, data = self.gpt()
        fully_shard(model, mesh=mesh)
        self.train(model, data)
        self.check(model)

    def test_checkpoint(self):
        """A sharded model and its optimizer, saved and loaded into new ones, which train on as the old ones."""
        directory = [tempfile.mkdtemp() if self.rank == 0 else None]
        dist.broadcast_object_list(directory, src=0)
        model, data = self.sharded()
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
        self.step(model, optimizer, data, 0, parts=WORLD)
        state, optimizer_state = get_state_dict(model, optimizer)
        dcp.save({"model": state, "optimizer": optimizer_state}, checkpoint_id=directory[0])

        other, _ = self.sharded()
        other_optimizer = torch.optim.Adam(other.parameters(), lr=1e-2)
        state, optimizer_state = get_state_dict(other, other_optimizer)
        loaded = {"model": state, "optimizer": optimizer_state}
        dcp.load(loaded, checkpoint_id=directory[0])
        set_state_dict(other, other_optimizer, model_state_dict=loaded["model"], optim_state_dict=loaded["optimizer"])
        for m, o in ((model, optimizer), (other, other_optimizer)):
            self.step(m, o, data, 1, parts=WORLD)
        for found, wanted in zip(other.parameters(), model.parameters(), strict=True):
            self.assertEqual(found.full_tensor(), wanted.full_tensor())

    # ------------------------------------------------------------------------------------------ DTensor
    def test_dtensor(self):
        mesh = init_device_mesh("atalla", (WORLD,))
        generator = torch.Generator().manual_seed(1)
        a, b = torch.randn(6, 4, generator=generator), torch.randn(4, 8, generator=generator)
        da, db = distribute_tensor(a, mesh, [Shard(1)]), distribute_tensor(b, mesh, [Shard(0)])
        self.assertEqual(da.to_local().cpu(), a.chunk(WORLD, 1)[self.rank])
        product = da @ db
        self.assertIsInstance(product.placements[0], Partial)
        self.assertEqual(product.full_tensor().cpu(), a @ b)
        rows = product.redistribute(placements=[Shard(0)])
        self.assertEqual(rows.to_local().cpu(), (a @ b).chunk(WORLD)[self.rank])
        self.assertEqual(rows.redistribute(placements=[Shard(1)]).to_local().cpu(), (a @ b).chunk(WORLD, 1)[self.rank])
        whole = rows.redistribute(placements=[Replicate()])
        self.assertEqual(whole.to_local().cpu(), a @ b)
        self.assertEqual(torch.softmax(rows, 1).full_tensor().cpu(), torch.softmax(a @ b, 1))
        self.assertEqual((rows + 1).sum().full_tensor().cpu(), (a @ b + 1).sum())
        uneven = distribute_tensor(torch.arange(5.0), mesh, [Shard(0)])
        self.assertEqual(uneven.to_local().tolist(), [[0.0, 1.0, 2.0], [3.0, 4.0]][self.rank])
        self.assertEqual(uneven.full_tensor().tolist(), [0.0, 1.0, 2.0, 3.0, 4.0])

    def test_tensor_parallel(self):
        mesh = init_device_mesh("atalla", (WORLD,))

        def network() -> nn.Sequential:
            torch.manual_seed(3)
            return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 4))

        model = parallelize_module(network().to(self.device), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
        self.assertEqual(model[0].weight.to_local().shape, (8 // WORLD, 6))
        reference = network()
        x = torch.randn(5, 6, generator=torch.Generator().manual_seed(4))
        out, wanted = model(x.to(self.device)), reference(x)
        self.assertEqual(out.cpu(), wanted)
        out.square().sum().backward()
        wanted.square().sum().backward()
        for found, expected in zip(model.parameters(), reference.parameters(), strict=True):
            self.assertEqual(found.grad.full_tensor().cpu(), expected.grad, rtol=1e-5, atol=1e-5)


class TestProcesses(TestCase):
    """Programs as users start them."""

    def test_torchrun(self):
        for strategy in ("ddp", "fsdp"):
            done = subprocess.run(
                [
                    sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
                    "examples/ddp_gpt.py", "--strategy", strategy,
                ],
                cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=300,
            )  # fmt: skip
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            losses = [float(x) for x in re.findall(r"loss ([\d.]+)", done.stdout)]
            self.assertEqual(len(losses), ddp_gpt.STEPS)
            self.assertLess(losses[-1], losses[0])
            self.assertIn(f"ok: {strategy} on 2 processes equals one process", done.stdout)

    def test_trainer(self):
        """Sharded and tensor-parallel training without the name of a device, and sharded checkpoints."""
        done = subprocess.run(
            [
                sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
                "examples/trainer_gpt.py", "--tp", "2",
            ],
            cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        losses = [float(x) for x in re.findall(r"one process ([\d.]+)", done.stdout)]
        self.assertEqual(len(losses), 8)
        self.assertLess(losses[-1], losses[0] - 0.5)
        self.assertIn("ok: 2 ranks, tp 2, equal one process and go on from a checkpoint", done.stdout)

    def start_two(self, *words: str) -> tuple[list[int], list[tuple[str, str]]]:
        """Exit statuses and outputs of the two ranks of a script beside this one."""
        with tempfile.TemporaryDirectory() as directory:
            script = str(Path(__file__).with_name(words[0]))
            peers = [
                subprocess.Popen(
                    [sys.executable, script, *words[1:], directory, str(rank)],
                    env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                )
                for rank in range(2)
            ]  # fmt: skip
            output = [peer.communicate(timeout=300) for peer in peers]
        return [peer.returncode for peer in peers], output

    def test_a_rank_that_destroys_its_group_early(self):
        """Without a barrier: the call that is under way is completed, and no process hangs or crashes."""
        statuses, output = self.start_two("distributed_ends.py", "destroys")
        self.assertEqual(statuses, [0, 0], output)
        for rank in range(2):
            self.assertIn("destroyed: True [4.0, 4.0, 4.0]", output[rank][0])
        self.assertIn("waited: True", output[0][0])

    def test_a_rank_that_ends_early(self):
        statuses, output = self.start_two("distributed_ends.py", "leaves")
        self.assertEqual(statuses, [0, 0], output)
        self.assertRegex(output[1][0], r"error: accl:all_reduce number [23] of rank 1 of 2 failed")

    def test_a_peer_that_does_not_come_and_one_that_dies(self):
        statuses, output = self.start_two("distributed_failures.py")
        self.assertEqual(statuses, [0, -signal.SIGKILL], output)
        self.assertRegex(output[0][0], r"late: accl:all_reduce number 1 of rank 0 of 2 failed: .*(?i:time(d )?out)")
        self.assertRegex(
            output[0][0], r"dead: accl:all_reduce number 2 of rank 0 of 2 failed: .*Connection (closed|res)"
        )
        self.assertRegex(output[0][0], r"next: accl:all_reduce number 3 of rank 0 of 2 failed")
        self.assertIn("allocated: 0", output[0][0])
        self.assertIn("device: 6.0", output[0][0])
