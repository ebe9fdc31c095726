# SPDX-License-Identifier: BSD-3-Clause
"""The c10d backend `accl`: every collective by its values, its errors, and the tables of docs/guides/distributed.md.

The tests of a class run in processes that start once (three ranks, each on a device of its own process), so that the
file pays for few starts. A rank makes the inputs of all ranks by itself and so knows every result.
"""

from __future__ import annotations

import itertools

import torch
import torch.distributed as dist
from distributed_expectations import expected_reduction, raw, reduce_op, reduce_table
from distributed_suite import DistributedTest, some

WORLD = 3
INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
MOVED = [
    *INTEGERS, torch.bool, torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex32,
    torch.complex64, torch.complex128, torch.uint16, torch.uint32, torch.uint64, torch.float8_e4m3fn,
    torch.float8_e5m2,
]  # fmt: skip


class TestCollectives(DistributedTest):
    world_size = WORLD

    def combinations(self) -> list[tuple[str, torch.dtype, bool]]:
        """Operator, dtype and whether it is allowed, of the whole table."""
        found = [(op, dtype, cell != "refused") for (op, dtype), cell in reduce_table().items()]
        self.assertEqual((len(found), sum(allowed for *_, allowed in found)), (9 * 14, 77))
        return found

    def refused(self, call) -> None:
        with self.assertRaisesRegex((ValueError, TypeError), "accl|complex|Cannot use"):
            call()

    # ------------------------------------------------------------------------------------------ reductions
    def test_all_reduce(self):
        for op, dtype, allowed in self.combinations():
            with self.subTest(op=op, dtype=dtype):
                t = self.mine(dtype, 5, 7)
                if not allowed:
                    self.refused(lambda t=t, op=op: dist.all_reduce(t, reduce_op(op)))
                    continue
                dist.all_reduce(t, reduce_op(op))
                self.assertEqual(t.cpu(), expected_reduction(op, self.all(dtype, 5, 7)))

    def test_reduce(self):
        for (op, dtype, allowed), root in zip(self.combinations(), itertools.cycle(range(WORLD))):
            with self.subTest(op=op, dtype=dtype):
                t = self.mine(dtype, 4, 3)
                if not allowed:
                    self.refused(lambda t=t, op=op, root=root: dist.reduce(t, root, reduce_op(op)))
                    continue
                dist.reduce(t, root, reduce_op(op))
                inputs = self.all(dtype, 4, 3)
                # The other ranks keep what they had.
                wanted = expected_reduction(op, inputs) if self.rank == root else inputs[self.rank]
                self.assertEqual(t.cpu(), wanted)

    def test_reduce_scatter(self):
        for op, dtype, allowed in self.combinations():
            with self.subTest(op=op, dtype=dtype):
                t = self.mine(dtype, WORLD * 2, 3)
                out = torch.empty(2, 3, dtype=dtype, device=self.device)
                if not allowed:
                    self.refused(lambda t=t, o=out, op=op: dist.reduce_scatter_tensor(o, t, reduce_op(op)))
                    continue
                dist.reduce_scatter_tensor(out, t, reduce_op(op))
                inputs = self.all(dtype, WORLD * 2, 3)
                wanted = expected_reduction(op, inputs).chunk(WORLD)[self.rank]
                self.assertEqual(out.cpu(), wanted)
                self.assertEqual(t.cpu(), inputs[self.rank])
                dist.reduce_scatter(out.zero_(), list(t.chunk(WORLD)), reduce_op(op))
                self.assertEqual(out.cpu(), wanted)
                self.assertEqual(t.cpu(), inputs[self.rank])

    def test_reduce_scatter_of_different_sizes(self):
        parts = [self.mine(torch.float32, r + 1, 2) for r in range(WORLD)]
        out = torch.empty(self.rank + 1, 2, device=self.device)
        dist.reduce_scatter(out, parts, dist.ReduceOp.SUM)
        self.assertEqual(out.cpu(), expected_reduction("SUM", self.all(torch.float32, self.rank + 1, 2)))

    def test_premul_sum_with_a_tensor(self):
        t = self.mine(torch.float32, 6)
        dist.all_reduce(t, dist._make_nccl_premul_sum(torch.tensor([0.5], device=self.device)))
        self.assertEqual(t.cpu(), expected_reduction("PREMUL_SUM", self.all(torch.float32, 6)))

    def test_half_averages_do_not_overflow(self):
        for dtype in (torch.float16, torch.bfloat16):
            t = torch.full((3,), 60000.0, device=self.device).to(dtype)
            wanted = t.cpu()
            dist.all_reduce(t, dist.ReduceOp.AVG)
            self.assertEqual(t.cpu(), wanted)

    def test_bools_of_other_bytes(self):
        # Any byte but 0 is true; "and" of 2 and 1 is true, and two trues cancel in "exclusive or".
        bytes_ = torch.tensor([self.rank + 1, 0, 2 if self.rank == 0 else 0], dtype=torch.uint8, device=self.device)
        for op, wanted in {
            "BAND": [True, False, False], "BOR": [True, False, True], "BXOR": [WORLD % 2 == 1, False, True],
            "SUM": [True, False, True], "PRODUCT": [True, False, False],
        }.items():  # fmt: skip
            t = bytes_.clone().view(torch.bool)
            dist.all_reduce(t, reduce_op(op))
            self.assertEqual(t.tolist(), wanted, op)

    def test_coalesced_reductions(self):
        sizes = [(3,), (2, 2), (0,), (5,)]
        tensors = [self.mine(torch.float32, *s) for s in sizes]
        with dist._coalescing_manager():
            for t in tensors:
                dist.all_reduce(t)
        for t, s in zip(tensors, sizes):
            self.assertEqual(t.cpu(), expected_reduction("SUM", self.all(torch.float32, *s)))
        inputs = [self.mine(torch.bfloat16, WORLD * n) for n in (2, 4)]
        outputs = [torch.empty(n, dtype=torch.bfloat16, device=self.device) for n in (2, 4)]
        with dist._coalescing_manager(async_ops=True) as manager:
            for o, i in zip(outputs, inputs):
                dist.reduce_scatter_tensor(o, i, dist.ReduceOp.AVG)
        manager.wait()
        for o, n in zip(outputs, (2, 4)):
            wanted = expected_reduction("AVG", self.all(torch.bfloat16, WORLD * n))
            self.assertEqual(o.cpu(), wanted.chunk(WORLD)[self.rank])

    def test_coalescing_by_device(self):
        first, second = self.mine(torch.float32, 4), self.mine(torch.int64, 3)
        with dist._coalescing_manager(device=self.device, async_ops=True) as manager:
            dist.broadcast(first, 1)
            dist.broadcast(second, 2)
        manager.wait()
        self.assertEqual(first.cpu(), some(1, torch.float32, 4))
        self.assertEqual(second.cpu(), some(2, torch.int64, 3))

    # ------------------------------------------------------------------------------------------ data movement
    def test_broadcast(self):
        for dtype, root in zip(MOVED, itertools.cycle(range(WORLD))):
            t = self.mine(dtype, 3, 4)
            dist.broadcast(t, root)
            self.assertEqual(raw(t), raw(some(root, dtype, 3, 4)), str(dtype))

    def test_all_gather(self):
        for dtype in MOVED:
            t, inputs = self.mine(dtype, 2, 3), self.all(dtype, 2, 3)
            out = [self.empty_like(t) for _ in range(WORLD)]
            dist.all_gather(out, t)
            self.assertEqual([raw(o) for o in out], [raw(i) for i in inputs], str(dtype))
            whole = torch.empty(WORLD * 2, 3, dtype=dtype, device=self.device)
            dist.all_gather_into_tensor(whole, t)
            self.assertEqual(raw(whole), torch.cat([raw(i) for i in inputs]), str(dtype))
            stacked = torch.empty(WORLD, 2, 3, dtype=dtype, device=self.device)
            dist.all_gather_into_tensor(stacked, t)
            self.assertEqual(raw(stacked).flatten(), raw(whole).flatten(), str(dtype))

    def test_all_gather_of_different_sizes(self):
        out = [torch.empty(r, 2, device=self.device) for r in range(WORLD)]
        dist.all_gather(out, self.mine(torch.float32, self.rank, 2))
        for r, o in enumerate(out):
            self.assertEqual(o.cpu(), some(r, torch.float32, r, 2))

    def test_all_gather_in_place(self):
        whole = torch.zeros(WORLD * 4, device=self.device)
        part = whole.narrow(0, self.rank * 4, 4)
        part.copy_(some(self.rank, torch.float32, 4))
        dist.all_gather_into_tensor(whole, part)
        self.assertEqual(whole.cpu(), torch.cat(self.all(torch.float32, 4)))

    def test_coalesced_all_gather(self):
        inputs = [self.mine(torch.float32, n) for n in (2, 0, 3)]
        outputs = [torch.empty(WORLD * n, device=self.device) for n in (2, 0, 3)]
        with dist._coalescing_manager():
            for o, i in zip(outputs, inputs):
                dist.all_gather_into_tensor(o, i)
        for o, n in zip(outputs, (2, 0, 3)):
            self.assertEqual(o.cpu(), torch.cat(self.all(torch.float32, n)))
        lists = [[torch.empty(n, device=self.device) for n in (2, 3)] for _ in range(WORLD)]
        dist.distributed_c10d._get_default_group().allgather_coalesced(lists, [inputs[0], inputs[2]]).wait()
        for r, row in enumerate(lists):
            self.assertEqual([t.cpu() for t in row], [some(r, torch.float32, n) for n in (2, 3)])

    def test_gather_and_scatter(self):
        for dtype, root in zip(MOVED, itertools.cycle(range(WORLD))):
            t = self.mine(dtype, 2, 2)
            out = [self.empty_like(t) for _ in range(WORLD)] if self.rank == root else None
            dist.gather(t, out, dst=root)
            if out is not None:
                self.assertEqual([raw(o) for o in out], [raw(i) for i in self.all(dtype, 2, 2)], str(dtype))
            parts = [i.to(self.device) for i in self.all(dtype, 2, 2)] if self.rank == root else None
            received = self.empty_like(t)
            dist.scatter(received, parts, src=root)
            self.assertEqual(raw(received), raw(some(self.rank, dtype, 2, 2)), str(dtype))

    def test_all_to_all(self):
        for dtype in MOVED:
            sent, inputs = self.mine(dtype, WORLD * 2, 2), self.all(dtype, WORLD * 2, 2)
            wanted = [i[2 * self.rank : 2 * self.rank + 2] for i in inputs]
            out = torch.empty(WORLD * 2, 2, dtype=dtype, device=self.device)
            dist.all_to_all_single(out, sent)
            self.assertEqual(raw(out), torch.cat([raw(w) for w in wanted]), str(dtype))
            parts = [torch.empty(2, 2, dtype=dtype, device=self.device) for _ in range(WORLD)]
            dist.all_to_all(parts, list(sent.chunk(WORLD)))
            self.assertEqual([raw(p) for p in parts], [raw(w) for w in wanted], str(dtype))

    def test_all_to_all_of_different_sizes(self):
        # Rank r sends r + d rows to rank d.
        def rows(source: int, to: int) -> torch.Tensor:
            return torch.full((source + to, 2), float(10 * source + to))

        sent = torch.cat([rows(self.rank, d) for d in range(WORLD)]).to(self.device)
        wanted = [rows(s, self.rank) for s in range(WORLD)]
        out = torch.empty(sum(len(w) for w in wanted), 2, device=self.device)
        to, source = [self.rank + d for d in range(WORLD)], [s + self.rank for s in range(WORLD)]
        dist.all_to_all_single(out, sent, source, to)
        self.assertEqual(out.cpu(), torch.cat(wanted))
        parts = [torch.empty_like(w, device=self.device) for w in wanted]
        dist.all_to_all(parts, list(sent.split(to)))
        self.assertEqual([p.cpu() for p in parts], wanted)

    def test_messages(self):
        following, previous = (self.rank + 1) % WORLD, (self.rank - 1) % WORLD
        for dtype in MOVED:
            t, received = self.mine(dtype, 3, 2), torch.empty(3, 2, dtype=dtype, device=self.device)
            sending = dist.isend(t, following, tag=7)
            self.assertEqual(dist.recv(received, previous, tag=7), previous)
            sending.wait()
            self.assertEqual(raw(received), raw(some(previous, dtype, 3, 2)), str(dtype))

    def test_messages_of_other_orders(self):
        # Tags, not the order of the calls, pair messages; and a pending collective does not hold them up.
        other = 1 - self.rank
        total = torch.ones(2, device=self.device)
        if self.rank < 2:
            big = torch.full((300_000,), float(self.rank), device=self.device)
            small = torch.full((3,), 10.0 + self.rank, device=self.device)
            received = [torch.empty_like(big), torch.empty_like(small)]
            work = dist.all_reduce(total, async_op=True) if self.rank == 0 else None
            calls = [dist.isend(big, other, tag=1), dist.isend(small, other, tag=2)]
            calls += [dist.irecv(received[1], other, tag=2), dist.irecv(received[0], other, tag=1)]
            for call in calls:
                call.wait()
            self.assertEqual(received[0].cpu(), torch.full((300_000,), float(other)))
            self.assertEqual(received[1].cpu(), torch.full((3,), 10.0 + other))
            work = work or dist.all_reduce(total, async_op=True)
        else:
            work = dist.all_reduce(total, async_op=True)
        work.wait()
        self.assertEqual(total.tolist(), [float(WORLD)] * 2)

    def test_messages_keep_their_order(self):
        following, previous = (self.rank + 1) % WORLD, (self.rank - 1) % WORLD
        received = [torch.empty(4, device=self.device) for _ in range(30)]
        works = [dist.irecv(t, previous) for t in received]
        works += [dist.isend(torch.full((4,), 100.0 * self.rank + k, device=self.device), following) for k in range(30)]
        for work in works:
            work.wait()
        self.assertEqual([t[0].item() for t in received], [100.0 * previous + k for k in range(30)])

    def test_message_from_anyone(self):
        if self.rank == 0:
            seen = set()
            for _ in range(WORLD - 1):
                t = torch.empty(2, device=self.device)
                source = dist.recv(t)
                self.assertEqual(t.tolist(), [float(source)] * 2)
                seen.add(source)
            self.assertEqual(seen, set(range(1, WORLD)))
        else:
            dist.send(torch.full((2,), float(self.rank), device=self.device), 0)

    def test_batch_of_messages(self):
        following, previous = (self.rank + 1) % WORLD, (self.rank - 1) % WORLD
        received = torch.empty(4, device=self.device)
        works = dist.batch_isend_irecv(
            [
                dist.P2POp(dist.irecv, received, previous),
                dist.P2POp(dist.isend, self.mine(torch.float32, 4), following),
            ]
        )
        for work in works:
            work.wait()
        self.assertEqual(received.cpu(), some(previous, torch.float32, 4))

    def test_objects(self):
        objects = [None] * WORLD
        dist.all_gather_object(objects, {"rank": self.rank, "tensor": self.mine(torch.float32, 2).cpu()})
        self.assertEqual([o["rank"] for o in objects], list(range(WORLD)))
        payload = ["text", 3, {"a": 1}] if self.rank == 1 else [None, None, None]
        dist.broadcast_object_list(payload, src=1, device=self.device)
        self.assertEqual(payload, ["text", 3, {"a": 1}])
        gathered = [None] * WORLD if self.rank == 2 else None
        dist.gather_object((self.rank,), gathered, dst=2)
        if self.rank == 2:
            self.assertEqual(gathered, [(r,) for r in range(WORLD)])
        part = [None]
        dist.scatter_object_list(part, [f"part {r}" for r in range(WORLD)] if self.rank == 0 else None, src=0)
        self.assertEqual(part, [f"part {self.rank}"])

    def test_memory_formats(self):
        t = self.mine(torch.float32, 2, 3, 4, 5).to(memory_format=torch.channels_last)
        dist.all_reduce(t)
        self.assertTrue(t.is_contiguous(memory_format=torch.channels_last))
        self.assertEqual(t.cpu(), expected_reduction("SUM", self.all(torch.float32, 2, 3, 4, 5)))
        part = torch.zeros(8, device=self.device)
        part[2:5] = self.rank + 1.0
        dist.all_reduce(part[2:5])
        self.assertEqual(part.tolist(), [0, 0, 6, 6, 6, 0, 0, 0])

    def test_empty_tensors(self):
        t = torch.empty(0, 3, device=self.device)
        dist.all_reduce(t, dist.ReduceOp.AVG)
        dist.broadcast(t, 0)
        dist.all_gather([torch.empty_like(t) for _ in range(WORLD)], t)
        dist.all_gather_into_tensor(torch.empty_like(t), t)
        dist.reduce_scatter_tensor(torch.empty_like(t), t)
        dist.all_to_all_single(torch.empty_like(t), t)
        dist.all_to_all([torch.empty_like(t) for _ in range(WORLD)], [t for _ in range(WORLD)])

    # ------------------------------------------------------------------------------------------ checks
    def test_arguments_are_checked(self):
        square = torch.ones(4, 4, device=self.device)
        with self.assertRaisesRegex(ValueError, "Tensors must be contiguous"):
            dist.all_reduce(square.t()[1:])
        with self.assertRaisesRegex(ValueError, "Tensors must be contiguous"):
            dist.broadcast(square[:, 1], 0)
        lazy = torch.ones(2, dtype=torch.complex64, device=self.device).conj()
        with self.assertRaisesRegex(ValueError, "conjugation"):
            dist.distributed_c10d._get_default_group()._get_backend(self.device).broadcast([lazy])
        with self.assertRaisesRegex(ValueError, "world_size times input"):
            dist.all_gather_into_tensor(torch.empty(5, device=self.device), torch.ones(2, device=self.device))
        with self.assertRaisesRegex(TypeError, "same type"):
            dist.all_gather_into_tensor(torch.empty(6, device=self.device), square[0, :2].int())
        with self.assertRaisesRegex(ValueError, "output size times world size"):
            dist.reduce_scatter_tensor(torch.empty(2, device=self.device), torch.ones(5, device=self.device))
        with self.assertRaisesRegex(ValueError, "one for each rank"):
            dist.all_gather([torch.empty(2, device=self.device)], torch.ones(2, device=self.device))
        with self.assertRaisesRegex(RuntimeError, "Split sizes"):
            dist.all_to_all_single(square.clone(), square, [1, 1, 1], [1, 1, 2])
        elsewhere = torch.ones(2, device=f"atalla:{1 - self.device.index}")
        with self.assertRaisesRegex(ValueError, "one device"):
            dist.all_gather([elsewhere] * WORLD, torch.ones(2, device=self.device))
        # The refusals were local: the group goes on.
        dist.all_reduce(square)
        self.assertEqual(square.cpu(), torch.full((4, 4), float(WORLD)))
