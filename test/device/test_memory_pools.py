# SPDX-License-Identifier: BSD-3-Clause
"""Blocks that several streams use, and private pools."""

import threading

import torch
from memory_suite import MIB, fresh
from opinfo_suite import collected
from torch.testing._internal.common_device_type import instantiate_device_type_tests
from torch.testing._internal.common_utils import TestCase


class TestStreams(TestCase):
    def setUp(self):
        super().setUp()
        fresh()

    def test_streams_have_pools_of_their_own(self, device):
        t = torch.empty(1000, device=device)
        addr = t.data_ptr()
        del t
        with torch.Stream(device):
            self.assertNotEqual(torch.empty(1000, device=device).data_ptr(), addr)
        self.assertEqual(torch.empty(1000, device=device).data_ptr(), addr)

    def test_record_stream(self, device):
        """A recorded block is not reused before the other stream's work is done, and holds its values until then."""
        side = torch.Stream(device)
        source = torch.ones(64, 64, device=device)
        results = []
        for _ in range(20):
            t = torch.full((64, 64), 3.0, device=device)
            side.wait_stream(torch.atalla.current_stream(device))
            with side:
                r = source
                for _ in range(10):
                    r = r @ source / 64
                results.append(r + t)
            t.record_stream(side)
            del t
            torch.full((64, 64), 5.0, device=device)  # would overwrite it
        side.synchronize()
        for r in results:
            self.assertEqual(r.cpu(), torch.full((64, 64), 4.0))

    def test_record_stream_defers_reuse(self, device):
        base = torch.atalla.memory_stats(device)
        t = torch.empty(1000, device=device)
        side = torch.Stream(device)
        t.record_stream(side)
        del t
        stats = torch.atalla.memory_stats(device)
        self.assertEqual(stats["allocation.all.current"], base["allocation.all.current"])
        side.synchronize()
        torch.empty(1, device=device)  # an allocation takes back what is done
        stats = torch.atalla.memory_stats(device)
        self.assertEqual(stats["active_bytes.all.current"], stats["allocated_bytes.all.current"])

    def test_empty_cache_waits(self, device):
        """Memory is given back only when the work that is queued on it is done."""
        x = torch.randn(256, 256, device=device)
        expected = (x.cpu() @ x.cpu()).relu()
        for _ in range(5):
            y = (x @ x).relu()
            copy = y.clone()
            del y
            torch.atalla.empty_cache()
            torch.full((256, 256), 7.0, device=device)
            self.assertEqual(copy.cpu(), expected, atol=1e-3, rtol=1e-3)

    def test_storage_resize_on_a_stream(self, device):
        t = torch.arange(1000, device=device)
        side = torch.Stream(device)
        side.wait_stream(torch.atalla.current_stream(device))
        with side:
            t.untyped_storage().resize_(16000)
            grown = torch.empty(0, dtype=torch.long, device=device).set_(t.untyped_storage())
            self.assertEqual(grown.numel(), 2000)
        torch.full((1000,), -1, device=device)  # must not get the old memory while it is being copied
        side.synchronize()
        self.assertEqual(grown[:1000].cpu(), torch.arange(1000))
        t.untyped_storage().resize_(0)
        self.assertEqual(t.untyped_storage().nbytes(), 0)

    def test_storage_resize_on_another_device(self, device):
        t = torch.arange(1000, device="atalla:1")
        one, zero = torch.atalla.memory_allocated(1), torch.atalla.memory_allocated(0)
        t.untyped_storage().resize_(1 << 16)
        self.assertEqual(torch.atalla.memory_allocated(1), one - 8192 + (1 << 16))
        self.assertEqual(torch.atalla.memory_allocated(0), zero)
        self.assertEqual(t.cpu(), torch.arange(1000))
        self.assertEqual(torch.atalla.current_device(), 0)


class TestPools(TestCase):
    def setUp(self):
        super().setUp()
        fresh()

    def test_pool(self, device):
        pool = torch.atalla.MemPool()
        self.assertEqual(pool.id[0], 0)
        self.assertNotEqual(pool.id, torch.atalla.MemPool().id)
        self.assertEqual(pool.use_count(), 1)
        outside = torch.empty(1000, device=device)
        with torch.atalla.use_mem_pool(pool):
            self.assertEqual(pool.use_count(), 2)
            inside = torch.full((1000,), 2.0, device=device)
        self.assertEqual(pool.use_count(), 1)
        segments = pool.snapshot()
        self.assertEqual([s["segment_pool_id"] for s in segments], [pool.id])
        self.assertEqual(segments[0]["allocated_size"], 4096)
        key = f"reserved_bytes_by_private_pools.0_{pool.id[1]}.all.current"
        self.assertEqual(torch.atalla.memory_stats(device)[key], 2 * MIB)
        addr = inside.data_ptr()
        del inside
        torch.atalla.empty_cache()
        self.assertEqual(len(pool.snapshot()), 1)  # kept as long as the pool lives
        with torch.atalla.use_mem_pool(pool):
            self.assertEqual(torch.empty(1000, device=device).data_ptr(), addr)
        pool_id = pool.id
        del pool
        self.assertEqual(torch.atalla.memory_snapshot(pool_id), [])
        self.assertEqual(torch.atalla.memory_stats(device)[key], 0)
        del outside

    def test_tensors_outlive_the_pool(self, device):
        pool = torch.atalla.MemPool()
        with torch.atalla.use_mem_pool(pool):
            t = torch.arange(1000, device=device)
        pool_id = pool.id
        del pool
        self.assertEqual(t.sum().item(), 499500)
        self.assertEqual(len(torch.atalla.memory_snapshot(pool_id)), 1)
        del t
        torch.atalla.empty_cache()
        self.assertEqual(torch.atalla.memory_snapshot(pool_id), [])

    def test_other_threads_and_devices(self, device):
        pool = torch.atalla.MemPool()
        seen = []
        with torch.atalla.use_mem_pool(pool):
            thread = threading.Thread(target=lambda: seen.append(torch.empty(10, device=device)))
            thread.start()
            thread.join()
            other = torch.empty(10, device="atalla:1")
        self.assertEqual(pool.snapshot(), [])
        with torch.atalla.use_mem_pool(pool, "atalla:1"):
            there = torch.empty(10, device="atalla:1")
        self.assertEqual([s["device"] for s in pool.snapshot()], [1])
        del other, there

    def test_options(self, device):
        whole = torch.atalla.MemPool(no_split=True)
        with torch.atalla.use_mem_pool(whole):
            held = [torch.empty(100, device=device) for _ in range(3)]
        self.assertEqual(len(whole.snapshot()), 3)
        self.assertEqual({len(s["blocks"]) for s in whole.snapshot()}, {1})
        with self.assertRaisesRegex(NotImplementedError, "pluggable"):
            torch.atalla.MemPool(allocator=object())
        del held
        total = torch.atalla.mem_get_info(device)[1]
        lender = torch.atalla.MemPool(use_on_oom=True)
        with torch.atalla.use_mem_pool(lender):
            torch.empty(total // 2, device=device, dtype=torch.int8)
        t = torch.empty(total // 2, device=device, dtype=torch.int8)  # would not fit beside it
        self.assertEqual(lender.snapshot()[0]["allocated_size"], total // 2)
        del t


SUITES = (TestStreams, TestPools)
NAMES = tuple(suite.__name__ for suite in SUITES)
for _suite in SUITES:
    instantiate_device_type_tests(_suite, globals(), only_for=("atalla",))


def test_count() -> None:
    assert sum(collected(globals(), name) for name in NAMES) >= 12
