# SPDX-License-Identifier: BSD-3-Clause
"""Memory as users of torch.cuda know it: statistics, limits, allocations, out of memory.

Blocks of several streams and private pools: test_memory_pools.py. Settings and the profiler: test_memory_settings.py.
Snapshots and history: test_memory_snapshot.py. The host's side: test_pinned_memory.py.
"""

import os
import threading

import torch
from memory_suite import MIB, child, fresh
from opinfo_suite import collected
from torch.testing._internal.common_device_type import instantiate_device_type_tests
from torch.testing._internal.common_utils import TestCase

POOLED = (
    "allocation", "segment", "active", "inactive_split", "allocated_bytes", "reserved_bytes", "active_bytes",
    "inactive_split_bytes", "requested_bytes",
)  # fmt: skip
COUNTERS = (
    "num_alloc_retries", "num_ooms", "num_oom_rejections", "num_sync_all_streams", "num_device_alloc",
    "num_device_free", "max_split_size",
)  # fmt: skip


class TestStatistics(TestCase):
    def setUp(self):
        super().setUp()
        fresh()

    def test_keys(self, device):
        torch.empty(1, device=device)
        stats = torch.atalla.memory_stats(device)
        for name in POOLED:
            for pool in ("all", "small_pool", "large_pool"):
                for metric in ("current", "peak", "allocated", "freed"):
                    self.assertGreaterEqual(stats[f"{name}.{pool}.{metric}"], 0)
        for name in ("oversize_allocations", "oversize_segments"):
            for metric in ("current", "peak", "allocated", "freed"):
                self.assertEqual(stats[f"{name}.{metric}"], 0)
        for name in COUNTERS:
            self.assertIsInstance(stats[name], int)
        self.assertEqual(list(stats), sorted(stats))
        nested = torch.atalla.memory_stats_as_nested_dict(device)
        self.assertEqual(nested["segment"]["all"]["current"], stats["segment.all.current"])

    def test_no_device_is_opened(self, device):
        result = child(
            "import torch; m = torch.atalla; print(dict(m.memory_stats()), m.memory_allocated(), "
            "m.max_memory_reserved(), m.is_initialized()); m.empty_cache(); print(m.is_initialized())"
        )
        self.assertEqual(result.stdout.split(), ["{}", "0", "0", "False", "False"], result.stderr)

    def test_counts(self, device):
        before = torch.atalla.memory_stats(device)

        def change(key):
            return torch.atalla.memory_stats(device)[key] - before[key]

        small = torch.empty(1000, device=device)  # 4000 bytes
        large = torch.empty(5 * MIB, device=device, dtype=torch.uint8)
        self.assertEqual(change("allocated_bytes.small_pool.current"), 4096)
        self.assertEqual(change("requested_bytes.small_pool.current"), 4000)
        self.assertEqual(change("allocated_bytes.large_pool.current"), 5 * MIB)
        self.assertEqual(change("allocation.all.current"), 2)
        self.assertEqual(change("segment.large_pool.current"), 1)
        self.assertEqual(change("reserved_bytes.large_pool.current"), 20 * MIB)
        self.assertEqual(change("inactive_split_bytes.large_pool.current"), 15 * MIB)
        self.assertEqual(torch.atalla.memory_allocated(device), before["allocated_bytes.all.current"] + 4096 + 5 * MIB)
        del small, large
        self.assertEqual(change("allocation.all.current"), 0)
        self.assertEqual(change("allocation.all.freed"), 2)
        self.assertEqual(change("reserved_bytes.large_pool.current"), 20 * MIB)
        torch.atalla.empty_cache()
        self.assertEqual(change("reserved_bytes.large_pool.current"), 0)
        self.assertEqual(change("num_device_free"), change("num_device_alloc"))

    def test_peaks(self, device):
        base = torch.atalla.memory_allocated(device)
        t = torch.empty(3 * MIB, device=device, dtype=torch.uint8)
        del t
        self.assertEqual(torch.atalla.max_memory_allocated(device), base + 3 * MIB)
        self.assertGreaterEqual(torch.atalla.max_memory_reserved(device), 20 * MIB)
        torch.atalla.reset_peak_memory_stats(device)
        self.assertEqual(torch.atalla.max_memory_allocated(device), base)
        with self.assertWarnsRegex(FutureWarning, "reset_peak_memory_stats"):
            torch.atalla.reset_max_memory_allocated(device)
        with self.assertWarnsRegex(FutureWarning, "reset_peak_memory_stats"):
            torch.atalla.reset_max_memory_cached(device)
        with self.assertWarnsRegex(FutureWarning, "memory_reserved"):
            self.assertEqual(torch.atalla.memory_cached(device), torch.atalla.memory_reserved(device))
        with self.assertWarnsRegex(FutureWarning, "max_memory_reserved"):
            self.assertEqual(torch.atalla.max_memory_cached(device), torch.atalla.max_memory_reserved(device))
        torch.atalla.reset_accumulated_memory_stats(device)
        self.assertEqual(torch.atalla.memory_stats(device)["allocation.all.allocated"], 0)

    def test_each_request_is_counted(self, device):
        """The sums that the allocator reports follow those of the sizes that were asked for, through many frees."""
        base = torch.atalla.memory_stats(device)
        generator = torch.Generator().manual_seed(1)
        held: list[torch.Tensor] = []
        peak = 0
        for step in range(300):
            if step % 3 < 2:
                size = int(torch.randint(1, 3 * MIB, (1,), generator=generator))
                held.append(torch.empty(size, device=device, dtype=torch.uint8))
            elif held:
                held.pop(int(torch.randint(len(held), (1,), generator=generator)))
            stats = torch.atalla.memory_stats(device)
            allocated = stats["allocated_bytes.all.current"] - base["allocated_bytes.all.current"]
            requested = stats["requested_bytes.all.current"] - base["requested_bytes.all.current"]
            rounded = sum(t.numel() + -t.numel() % 512 for t in held)
            peak = max(peak, stats["allocated_bytes.all.current"])
            self.assertEqual(requested, sum(t.numel() for t in held))
            self.assertGreaterEqual(allocated, rounded)
            self.assertLessEqual(allocated, rounded + len(held) * MIB)  # a rest of up to 1 MiB is not split off
            self.assertLessEqual(stats["allocated_bytes.all.current"], stats["reserved_bytes.all.current"])
        self.assertEqual(torch.atalla.max_memory_allocated(device), peak)

    def test_accelerator_agrees(self, device):
        index = torch.device(device).index or 0
        t = torch.empty(2 * MIB, device=device)
        ours, theirs = torch.atalla.memory_stats(index), torch.accelerator.memory_stats(index)
        self.assertGreaterEqual(len(theirs), 100)
        for key, value in theirs.items():
            self.assertEqual(ours[key], value, msg=key)
        accelerator = torch.accelerator
        for name in ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved"):
            self.assertEqual(getattr(accelerator, name)(index), getattr(torch.atalla, name)(index), msg=name)
        self.assertEqual(accelerator.get_memory_info(index), torch.atalla.mem_get_info(index))
        del t
        accelerator.reset_peak_memory_stats(index)
        self.assertEqual(torch.atalla.max_memory_allocated(index), torch.atalla.memory_allocated(index))
        accelerator.reset_accumulated_memory_stats(index)
        self.assertEqual(torch.atalla.memory_stats(index)["segment.all.freed"], 0)
        accelerator.empty_cache()
        self.assertEqual(torch.atalla.memory_stats(index)["inactive_split.large_pool.current"], 0)

    def test_devices_are_apart(self, device):
        one = torch.atalla.memory_allocated(1)
        zero = torch.atalla.memory_allocated(0)
        t = torch.empty(MIB, device="atalla:1")
        self.assertEqual(torch.atalla.memory_allocated(1), one + 4 * MIB)
        self.assertEqual(torch.atalla.memory_allocated(0), zero)
        with torch.atalla.device(1):
            self.assertEqual(torch.atalla.memory_allocated(), one + 4 * MIB)
        self.assertEqual(torch.atalla.memory_allocated("atalla:1"), t.nbytes + one)

    def test_mem_get_info(self, device):
        free, total = torch.atalla.mem_get_info(device)
        self.assertEqual(total, torch.atalla.get_device_properties(device).total_memory)
        t = torch.empty(64 * MIB, device=device, dtype=torch.uint8)
        self.assertEqual(torch.atalla.mem_get_info(device), (free - 64 * MIB, total))
        del t
        self.assertEqual(torch.atalla.mem_get_info(device)[0], free - 64 * MIB)  # cached
        torch.atalla.empty_cache()
        self.assertEqual(torch.atalla.mem_get_info(device)[0], free)

    def test_summary(self, device):
        t = torch.empty(5 * MIB, device=device, dtype=torch.uint8)
        full = torch.atalla.memory_summary(device)
        lines = full.splitlines()
        self.assertEqual({len(line) for line in lines}, {77})
        self.assertEqual(lines[0], "|" + "=" * 75 + "|")
        self.assertIn("device ID 0", lines[1])
        row = next(line for line in lines if "Reserved memory" in line)
        self.assertEqual(row.split("|")[2].split(), [str(torch.atalla.memory_reserved(device) // 1024), "KiB"])
        self.assertEqual(full.count("from large pool"), 9)
        short = torch.atalla.memory_summary(device, abbreviated=True)
        self.assertNotIn("from", short)
        self.assertLess(len(short), len(full))
        self.assertIn("Oversize segments", short)
        del t

    def test_processes(self, device):
        t = torch.empty(1, device=device)
        self.assertRegex(torch.atalla.list_gpu_processes(device), rf"process +{os.getpid()} uses +\d+\.\d+ MB")
        del t


class TestAllocator(TestCase):
    def setUp(self):
        super().setUp()
        fresh()

    def test_freed_memory_is_reused(self, device):
        a = torch.empty(1000, device=device)
        addr = a.data_ptr()
        del a
        self.assertEqual(torch.empty(1000, device=device).data_ptr(), addr)
        self.assertEqual(addr % 512, 0)

    def test_empty_sizes(self, device):
        self.assertEqual(torch.empty(0, device=device).data_ptr(), 0)
        base = torch.atalla.memory_allocated(device)
        self.assertEqual(torch.empty(3, 0, device=device).sum().item(), 0)
        self.assertEqual(torch.atalla.memory_allocated(device), base)

    def test_out_of_memory(self, device):
        kept = torch.arange(1000, device=device)
        ooms = torch.atalla.memory_stats(device)["num_ooms"]
        text = (
            r"atalla out of memory. Tried to allocate 1024.00 GiB. Device 0 has a total capacity of \d+\.\d+ GiB of "
            r"which \d+\.\d+ GiB is free"
        )
        with self.assertRaisesRegex(torch.OutOfMemoryError, text):
            torch.empty(1 << 40, dtype=torch.int8, device=device)
        with self.assertRaisesRegex(RuntimeError, "more than 1EB memory"):
            torch.empty(1 << 62, dtype=torch.int8, device=device)
        self.assertEqual(torch.atalla.memory_stats(device)["num_ooms"], ooms + 2)
        self.assertEqual(kept.sum().item(), 499500)
        self.assertEqual(torch.ones(100, device=device).sum().item(), 100)

    def test_full_device(self, device):
        """Fills the device to the last segment, then goes on working."""
        total = torch.atalla.mem_get_info(device)[1]
        kept = torch.arange(1000, device=device)
        held = []
        with self.assertRaisesRegex(torch.OutOfMemoryError, "reserved but unallocated"):
            while True:
                held.append(torch.empty(total // 8, dtype=torch.int8, device=device))
        self.assertGreaterEqual(len(held), 7)
        self.assertGreater(torch.atalla.memory_stats(device)["num_alloc_retries"], 0)
        self.assertEqual((kept + 1).sum().item(), 500500)
        held.clear()
        self.assertEqual(torch.zeros(total // 4, dtype=torch.int8, device=device)[-1].item(), 0)

    def test_out_of_memory_in_a_step(self, device):
        """An op whose result does not fit leaves its inputs and the device as they were."""
        x = torch.ones(1000, 1, device=device)
        allocated = torch.atalla.memory_allocated(device)
        with self.assertRaises(torch.OutOfMemoryError):
            x.expand(1000, 1 << 22) + x
        self.assertEqual(torch.atalla.memory_allocated(device), allocated)
        self.assertEqual((x + x).sum().item(), 2000)

    def test_observer(self, device):
        seen = []
        torch.atalla.memory._attach_out_of_memory_observer(lambda *numbers: seen.append(numbers))
        with self.assertRaises(torch.OutOfMemoryError):
            torch.empty(1 << 41, dtype=torch.int8, device=device)
        free = torch.atalla.mem_get_info(device)[0]
        self.assertIn((torch.device(device).index or 0, 1 << 41, torch.atalla.memory_allocated(device), free), seen)

    def test_fraction(self, device):
        total = torch.atalla.mem_get_info(device)[1]
        self.assertEqual(torch.atalla.get_per_process_memory_fraction(device), 1.0)
        with self.assertRaisesRegex(TypeError, "must be `float`"):
            torch.atalla.set_per_process_memory_fraction(1, device)
        for wrong in (-0.1, 2.0):
            with self.assertRaisesRegex(ValueError, "Invalid fraction value"):
                torch.atalla.set_per_process_memory_fraction(wrong, device)
        try:
            torch.atalla.set_per_process_memory_fraction(0.25, device)
            self.assertEqual(torch.atalla.get_per_process_memory_fraction(device), 0.25)
            t = torch.empty(total // 5, dtype=torch.int8, device=device)
            with self.assertRaisesRegex(torch.OutOfMemoryError, r"The allocator may reserve [\d.]+ [GM]iB"):
                torch.empty(total // 10, dtype=torch.int8, device=device)
            del t
            torch.empty(total // 10, dtype=torch.int8, device=device)  # what was cached makes room
        finally:
            torch.atalla.set_per_process_memory_fraction(1.0, device)
        torch.empty(total // 2, dtype=torch.int8, device=device)

    def test_raw_allocations(self, device):
        base = torch.atalla.memory_allocated(device)
        addr = torch.atalla.caching_allocator_alloc(1000, device)
        self.assertEqual(torch.atalla.memory_allocated(device), base + 1024)
        torch.atalla.caching_allocator_delete(addr)
        stream = torch.Stream(device)
        other = torch.atalla.caching_allocator_alloc(1000, device, stream)
        self.assertNotEqual(other, addr)  # another stream's pool
        torch.atalla.caching_allocator_delete(other)
        self.assertEqual(torch.atalla.memory_allocated(device), base)
        with self.assertRaisesRegex(TypeError, "Invalid type for stream argument"):
            torch.atalla.caching_allocator_alloc(1000, device, "stream")
        with self.assertRaises(torch.OutOfMemoryError):
            torch.atalla.caching_allocator_alloc(1 << 42, device)
        self.assertEqual(torch.atalla.get_allocator_backend(), "native")

    def test_without_caching(self, device):
        torch.atalla.empty_cache()
        base = torch.atalla.memory_reserved(device)
        with torch.atalla.caching_allocator_disabled():
            t = torch.arange(1000, device=device)
            self.assertEqual(torch.atalla.memory_reserved(device), base + 8192)
            u = torch.full((1000,), 2, device=device)
            self.assertEqual((t + u).sum().item(), 501500)
            del t, u
            self.assertEqual(torch.atalla.memory_reserved(device), base)
        torch.empty(
            64 * MIB, dtype=torch.uint8, device=device
        )  # more than what earlier tests can have left in the cache
        self.assertEqual(torch.atalla.memory_reserved(device), base + 64 * MIB)

    def test_threads(self, device):
        """Threads with streams of their own; every tensor keeps its value until it is freed."""
        base = torch.atalla.memory_allocated(device)
        wrong = []

        def work(seed):
            generator = torch.Generator().manual_seed(seed)
            with torch.Stream(device):
                held = []
                for step in range(60):
                    size = int(torch.randint(1, 20000, (1,), generator=generator))
                    held.append((torch.full((size,), step, device=device), step))
                    if len(held) > 8:
                        t, value = held.pop(int(torch.randint(8, (1,), generator=generator)))
                        if not bool((t == value).all()):
                            wrong.append(value)
                    if step % 25 == seed:
                        torch.atalla.empty_cache()

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])
        self.assertEqual(torch.atalla.memory_allocated(device), base)


SUITES = (TestStatistics, TestAllocator)
NAMES = tuple(suite.__name__ for suite in SUITES)
for _suite in SUITES:
    instantiate_device_type_tests(_suite, globals(), only_for=("atalla",))


def test_count() -> None:
    assert sum(collected(globals(), name) for name in NAMES) >= 22
