# SPDX-License-Identifier: BSD-3-Clause
"""The c10d backend `accl` beside other work: streams, futures, time, graphs, groups and meshes.

What its collectives compute: test_distributed.py.
"""

from __future__ import annotations

import copy
from datetime import timedelta
from functools import partial

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from distributed_expectations import expected_reduction
from distributed_suite import DistributedTest, some
from torch.distributed.device_mesh import init_device_mesh
from torch.testing._internal.common_utils import TestCase

import torch_atalla
from torch_atalla.driver.torch_versions import since

WORLD = 3


class TestWork(DistributedTest):
    world_size = WORLD

    # ------------------------------------------------------------------------------------------ order, background
    def test_a_call_does_not_wait_for_the_others(self):
        store = dist.distributed_c10d._get_default_store()
        t = self.mine(torch.float32, 3)
        if self.rank == 0:
            work = dist.all_reduce(t, async_op=True)
            self.assertFalse(work.is_completed())
            # Nor does the host wait, but the stream.
            work.wait()
            doubled = t * 2
            work.get_future().wait()
            self.assertFalse(work.is_completed() or torch.accelerator.current_stream().query())
            store.set("the others may join", "yes")
        else:
            store.wait(["the others may join"])
            work = dist.all_reduce(t, async_op=True)
            work.wait()
            doubled = t * 2
        total = expected_reduction("SUM", self.all(torch.float32, 3))
        self.assertEqual((t.cpu(), doubled.cpu()), (total, total * 2))
        self.assertEqual(work.get_future().value()[0].cpu(), total)
        work.wait(timedelta(seconds=30))  # with a timeout it is the host that waits
        self.assertTrue(work.is_completed() and work.is_success())

    def test_wait_with_a_timeout(self):
        store = dist.distributed_c10d._get_default_store()
        t = torch.ones(2, device=self.device)
        if self.rank == 0:
            work = dist.all_reduce(t, async_op=True)
            with self.assertRaisesRegex(dist.DistBackendError, r"all_reduce number \d+ .* not complete after 20 ms"):
                work.wait(timedelta(milliseconds=20))
            store.set("rank 0 has given up once", "yes")
        else:
            store.wait(["rank 0 has given up once"])
            work = dist.all_reduce(t, async_op=True)
        work.wait(timedelta(seconds=30))  # the call itself went on
        self.assertTrue(work.is_completed())
        self.assertEqual(t.tolist(), [float(WORLD)] * 2)

    def test_wait_that_blocks(self):
        group = dist.new_group(backend="accl", pg_options=torch_atalla.distributed.Options(blocking_wait=True))
        for _ in range(3):
            work = dist.all_reduce(torch.ones(2, device=self.device), group=group, async_op=True)
            work.wait()
            self.assertTrue(work.is_completed())
        dist.destroy_process_group(group)

    def test_simulated_time(self):
        # docs/concepts/timing.md, "The link": ring all-reduce, 2 (n - 1) messages of a part each, bound by the link.
        config = torch_atalla.chip.config()
        latency, width = (config["link"][key]["value"] for key in ("latency_cycles", "bytes_per_cycle"))
        overhead = config["launch"]["overhead_cycles"]["value"]
        t = torch.ones(WORLD * 100, device=self.device)
        self.meet()  # no rank is late
        before = torch_atalla.telemetry.counters(self.device)
        start, end = (torch.Event(self.device, enable_timing=True) for _ in range(2))
        start.record()
        dist.all_reduce(t)
        end.record()
        end.synchronize()
        wanted = overhead + 2 * (WORLD - 1) * (latency + 400 // width)
        after = torch_atalla.telemetry.counters(self.device)
        self.assertEqual(after.cycles - before.cycles, wanted)
        self.assertEqual(after.copies - before.copies, 1)
        self.assertEqual(after.dram_bytes_read - before.dram_bytes_read, 2 * (WORLD - 1) * 400)
        self.assertEqual(
            start.elapsed_time(end), wanted / torch_atalla.chip.config()["chip"]["clock_hz"]["value"] * 1e3
        )

    def meet(self):
        dist.barrier(device_ids=[self.device.index])  # of the chips: that of a group with gloo is the hosts'
        torch.atalla.synchronize()

    def cycles_of(self, call) -> list[int]:
        """The cycles of call() on each rank, from a barrier to the end of what it submitted."""
        self.meet()
        start, end = (torch.Event(self.device, enable_timing=True) for _ in range(2))
        start.record()
        call()
        end.record()
        end.synchronize()
        hertz = torch_atalla.chip.config()["chip"]["clock_hz"]["value"]
        cycles: list[int] = [0] * WORLD
        dist.all_gather_object(cycles, round(start.elapsed_time(end) * 1e-3 * hertz))
        return cycles

    def test_a_late_rank(self):
        # docs/guides/distributed.md, "Simulated time": a rank waits for those whose data it needs.
        t = torch.ones(3 * WORLD, device=self.device)
        big = torch.zeros(1 << 18, device=self.device)
        late = 1

        def work(rank=late):
            if self.rank == rank:
                big.add_(1)

        def times(call, rank=late):
            def run():
                work(rank)
                call()
                t.add_(1)  # goes on behind the call

            return self.cycles_of(run)

        alone = self.cycles_of(work)[late]
        self.assertGreater(alone, 100_000)
        parts = list(torch.ones(WORLD, 3, device=self.device))
        for call in (
            lambda: dist.all_reduce(t),
            lambda: dist.all_reduce(t.bfloat16()),
            lambda: dist.barrier(device_ids=[self.device.index]),
            lambda: dist.all_gather(parts, t[:3]),
            lambda: dist.reduce_scatter_tensor(t[:3], t),
            lambda: dist.all_to_all_single(t, torch.ones_like(t)),
            lambda: dist.all_reduce(t, async_op=True).wait(),
        ):
            nobody = times(call, rank=None)
            self.assertEqual(nobody, [nobody[0]] * WORLD)
            self.assertEqual(times(call), [nobody[0] + alone] * WORLD)
        # Only the root, or only the others, wait.
        for call, root_waits in (
            (lambda: dist.broadcast(t, src=0), False),
            (lambda: dist.scatter(t[:3], parts if self.rank == 0 else None, src=0), False),
            (lambda: dist.reduce(t, dst=0), True),
            (lambda: dist.gather(t[:3], parts if self.rank == 0 else None, dst=0), True),
        ):
            nobody = times(call, rank=None)
            waiting = [root_waits, True, False]  # rank 1 is late
            self.assertEqual(times(call), [n + alone * w for n, w in zip(nobody, waiting)])
            waiting = [True, not root_waits, not root_waits]  # the root is, which need not copy what it reduces
            found = times(call, rank=0)
            for cycles, n, w in zip(found, nobody, waiting):
                self.assertLessEqual(abs(cycles - n - alone * w), 500, (found, nobody))

    def test_a_late_sender(self):
        t = torch.ones(64, device=self.device)
        big = torch.zeros(1 << 18, device=self.device)
        for any_source in (False, True):

            def run(late, any_source=any_source):
                if self.rank == late:
                    big.add_(1)
                if self.rank == 0:
                    dist.isend(t, 2).wait()
                if self.rank == 2:
                    dist.recv(t, None if any_source else 0)

            nobody = self.cycles_of(lambda: run(None))
            alone = self.cycles_of(lambda: run(1))[1]
            self.assertEqual(self.cycles_of(lambda: run(0)), [nobody[0] + alone, nobody[1], nobody[2] + alone])
            self.assertEqual(self.cycles_of(lambda: run(2)), [nobody[0], nobody[1], nobody[2] + alone])
        with self.assertRaisesRegex(ValueError, r"tag below 2\*\*30"):
            dist.send(t, (self.rank + 1) % WORLD, tag=1 << 30)

    def test_late_ranks_of_a_graph(self):
        t = torch.ones(64, device=self.device)
        big = torch.zeros(1 << 18, device=self.device)
        graph = torch.atalla.Graph()
        with torch.atalla.graph(graph):
            dist.all_reduce(t)

        def run(late):
            if self.rank == late:
                big.add_(1)
            graph.replay()

        nobody = self.cycles_of(lambda: run(None))
        alone = self.cycles_of(lambda: big.add_(1))[0]
        for late in range(WORLD):
            self.assertEqual(self.cycles_of(partial(run, late)), [nobody[0] + alone] * WORLD)

    def test_profiler(self):
        activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.PrivateUse1]
        with torch.profiler.profile(activities=activities) as profile:
            dist.all_reduce(torch.ones(1000, device=self.device))
            torch.atalla.synchronize()
        names = {e.name for e in profile.events()}
        self.assertIn("Link exchange (Device <-> Peer)", names)
        self.assertIn("accl:all_reduce", names)

    def test_futures_and_callbacks(self):
        t = self.mine(torch.float32, 3)
        doubled = dist.all_reduce(t, async_op=True).get_future().then(lambda f: f.value()[0] * 2)
        self.assertEqual(doubled.wait().cpu(), 2 * expected_reduction("SUM", self.all(torch.float32, 3)))

    def test_order_with_streams(self):
        # Each stream's collective sees what the stream did before it, and later work sees its result.
        streams = [torch.Stream(self.device) for _ in range(3)]
        results = []
        for k, stream in enumerate(streams):
            with stream:
                t = torch.zeros(64, 64, device=self.device)
                for _ in range(20):
                    t += 1
                t = t * (self.rank + 1)
                work = dist.all_reduce(t, async_op=True)
                work.wait()
                t = t * (k + 1)
                results.append(t)
        for k, (t, stream) in enumerate(zip(results, streams)):
            stream.synchronize()
            self.assertEqual(t.cpu(), torch.full((64, 64), 20.0 * 6 * (k + 1)))

    def test_wait_on_another_stream(self):
        t = self.mine(torch.float32, 16)
        side = torch.Stream(self.device)
        work = dist.all_reduce(t, dist.ReduceOp.AVG, async_op=True)
        with side:
            work.wait()
            doubled = t * 2
        side.synchronize()
        self.assertEqual(doubled.cpu(), 2 * expected_reduction("AVG", self.all(torch.float32, 16)))

    def test_tensors_live_until_the_call_is_complete(self):
        works = [dist.all_reduce(torch.full((256,), float(k), device=self.device), async_op=True) for k in range(40)]
        for k, work in enumerate(works):
            work.wait()
            self.assertEqual(work.result()[0].cpu(), torch.full((256,), float(WORLD * k)))

    def test_both_devices_of_a_process(self):
        for index in range(torch.accelerator.device_count()):
            t = some(self.rank, torch.float32, 4).to(f"atalla:{index}")
            dist.all_reduce(t)
            self.assertEqual(t.device.index, index)
            self.assertEqual(t.cpu(), expected_reduction("SUM", self.all(torch.float32, 4)))

    def test_barrier(self):
        store = dist.distributed_c10d._get_default_store()
        store.add("arrived", 1)
        dist.barrier()
        self.assertEqual(store.add("arrived", 0), WORLD)
        dist.barrier(device_ids=[0])
        dist.barrier(async_op=True).wait()

    # ------------------------------------------------------------------------------------------ groups
    def test_new_group(self):
        group = dist.new_group([0, 2], backend="accl")
        if self.rank != 1:
            t = self.mine(torch.float32, 3)
            dist.all_reduce(t, group=group)
            inputs = self.all(torch.float32, 3)
            self.assertEqual(t.cpu(), inputs[0] + inputs[2])
            t = self.mine(torch.float32, 3)
            dist.broadcast(t, src=2, group=group)
            self.assertEqual(t.cpu(), inputs[2])
            dist.destroy_process_group(group)

    def test_split_group(self):
        if not since("2.15"):  # which splits a group without a device, too
            with self.assertRaisesRegex(RuntimeError, "not safe to split"):
                dist.split_group(split_ranks=[[0, 1], [2]])  # as everywhere: the default group has no device
        world = dist.distributed_c10d._get_default_group()
        world.bound_device_id = self.device
        try:
            # Every rank gets as many groups: PyTorch numbers them to name the next.
            pair = dist.split_group(split_ranks=[[0, 2], [1]], timeout=timedelta(seconds=40), group_desc="a pair")
            mine = dist.split_group(split_ranks=[[0], [1, 2]])
            made = dist.new_group([1, 2], use_local_synchronization=True)
            others = dist.split_group(split_ranks=[[1, 2]])
        finally:
            world.bound_device_id = None
        self.assertEqual(others in (None, dist.GroupMember.NON_GROUP_MEMBER), self.rank == 0)
        if self.rank != 1:
            backend = pair._get_backend(self.device)
            self.assertEqual((backend.name(), backend.size(), backend.rank()), ("accl", 2, self.rank // 2))
            self.assertEqual(backend.options._timeout, timedelta(seconds=40))
            self.assertEqual(dist.get_process_group_ranks(pair), [0, 2])
            t = self.mine(torch.float32, 3)
            dist.all_reduce(t, group=pair)
            inputs = self.all(torch.float32, 3)
            self.assertEqual(t.cpu(), inputs[0] + inputs[2])
        t = torch.ones(2, device=self.device)
        dist.all_reduce(t, group=mine)
        self.assertEqual(t.tolist(), [1.0 if self.rank == 0 else 2.0] * 2)
        if self.rank != 0:
            dist.all_reduce(t, group=made)
            dist.all_reduce(t, group=others)
            self.assertEqual(t.tolist(), [8.0] * 2)
            dist.destroy_process_group(made)
            dist.destroy_process_group(others)
        dist.destroy_process_group(pair)
        dist.destroy_process_group(mine)

    def test_options_are_copied(self):
        options = torch_atalla.distributed.Options(blocking_wait=True)
        for other in (copy.copy(options), copy.deepcopy(options)):
            self.assertIsNot(other, options)
            self.assertTrue(other.blocking_wait)
            other.blocking_wait = False
            self.assertTrue(options.blocking_wait)
        with self.assertRaisesRegex(TypeError, "torch_atalla.distributed.Options"):
            dist.new_group(backend="accl", pg_options=object())

    def test_captured_in_a_graph(self):
        x, total = torch.zeros(4, device=self.device), torch.zeros(4, device=self.device)
        graph = torch.atalla.Graph()
        with torch.atalla.graph(graph):
            y = x * 2
            dist.all_reduce(y, dist.ReduceOp.AVG)  # converts on the chip before and after
            total.add_(y)
        for step in range(3):
            x.fill_(float(self.rank + step))
            graph.replay()
        # means of 2 * (rank + step), for three steps
        self.assertEqual(total.tolist(), [2.0 * sum(1 + step for step in range(3))] * 4)

    def test_names(self):
        self.assertEqual(dist.Backend.default_device_backend_map["atalla"], "accl")
        group = dist.distributed_c10d._get_default_group()
        backend = group._get_backend(self.device)
        self.assertEqual((backend.name(), backend.rank(), backend.size()), ("accl", self.rank, WORLD))
        self.assertEqual(dist.get_backend_config(), "cpu:gloo,atalla:accl")
        cpu = torch.ones(2)
        dist.all_reduce(cpu)  # by Gloo itself
        self.assertEqual(cpu.tolist(), [3.0, 3.0])

    def test_monitored_barrier(self):
        group = dist.distributed_c10d._get_default_group()
        group.monitored_barrier(timeout=timedelta(seconds=30))
        if since("2.15"):  # which takes the group's backend for the host
            dist.monitored_barrier()
        else:
            with self.assertRaisesRegex(ValueError, "only implemented for GLOO"):
                dist.monitored_barrier()

    def test_device_mesh(self):
        mesh = init_device_mesh("atalla", (WORLD,), mesh_dim_names=("data",))
        self.assertEqual((mesh.device_type, mesh.size(), mesh.get_local_rank()), ("atalla", WORLD, self.rank))
        t = self.mine(torch.float32, 2)
        dist.all_reduce(t, group=mesh.get_group("data"))
        self.assertEqual(t.cpu(), expected_reduction("SUM", self.all(torch.float32, 2)))

    def test_functional_collectives(self):
        group = dist.distributed_c10d._get_default_group()
        t, inputs = self.mine(torch.float32, WORLD * 2, 2), self.all(torch.float32, WORLD * 2, 2)
        total = expected_reduction("SUM", inputs)
        self.assertEqual(funcol.all_reduce(t, "sum", group).cpu(), total)
        self.assertEqual(funcol.all_reduce(t, "avg", group).cpu(), total / WORLD)
        self.assertEqual(funcol.all_gather_tensor(t, 0, group).cpu(), torch.cat(inputs))
        self.assertEqual(funcol.all_gather_tensor(t, 1, group).cpu(), torch.cat(inputs, 1))
        self.assertEqual(funcol.reduce_scatter_tensor(t, "sum", 0, group).cpu(), total.chunk(WORLD)[self.rank])
        self.assertEqual(funcol.broadcast(t, 1, group).cpu(), inputs[1])
        wanted = torch.cat([i.chunk(WORLD)[self.rank] for i in inputs])
        self.assertEqual(funcol.all_to_all_single(t, None, None, group).cpu(), wanted)
        coalesced = funcol.all_reduce_coalesced([t, t[:1]], "sum", group)
        self.assertEqual([c.cpu() for c in coalesced], [total, total[:1]])
        coalesced = funcol.all_gather_into_tensor_coalesced([t, t[:1]], group)
        self.assertEqual([c.cpu() for c in coalesced], [torch.cat(inputs), torch.cat([i[:1] for i in inputs])])
        coalesced = funcol.reduce_scatter_tensor_coalesced([t, t], "sum", [0, 0], group)
        self.assertEqual([c.cpu() for c in coalesced], [total.chunk(WORLD)[self.rank]] * 2)
        self.assertEqual(t.cpu(), inputs[self.rank])


class TestOneProcess(TestCase):
    """What needs no second process."""

    def setUp(self):
        super().setUp()
        dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1)

    def tearDown(self):
        dist.destroy_process_group()
        super().tearDown()

    def test_default_backend(self):
        t = torch.arange(4.0, device="atalla:1")
        dist.all_reduce(t)
        self.assertEqual(t.tolist(), [0.0, 1.0, 2.0, 3.0])
        with self.assertRaisesRegex(RuntimeError, "No backend type associated with device type cpu"):
            dist.all_reduce(torch.ones(1))
