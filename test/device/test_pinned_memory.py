# SPDX-License-Identifier: BSD-3-Clause
"""Pinned host memory: its allocator, what counts as pinned, copies that do not wait, and DataLoader's pin thread."""

import gc

import torch
from torch.testing._internal.common_device_type import instantiate_device_type_tests
from torch.testing._internal.common_utils import TestCase
from torch.utils.data import DataLoader, Dataset, TensorDataset


class Squares(Dataset):
    """Items that are neither tensors nor tuples only."""

    def __len__(self):
        return 20

    def __getitem__(self, i):
        return {"x": torch.full((3,), float(i)), "y": (i * i, f"item {i}")}


class TestPinnedMemory(TestCase):
    def setUp(self):
        super().setUp()
        gc.collect()
        torch.atalla.synchronize()

    def test_is_pinned(self, device):
        x = torch.randn(100)
        self.assertFalse(x.is_pinned())
        p = x.pin_memory()
        self.assertTrue(p.is_pinned())
        self.assertEqual(p, x)
        self.assertEqual(p.pin_memory().data_ptr(), p.data_ptr())  # it is already
        self.assertTrue(p[50:].is_pinned())
        self.assertTrue(p[::7].view(-1).is_pinned())
        self.assertFalse(p.clone().is_pinned())
        self.assertFalse(p.to(device).is_pinned())
        self.assertTrue(torch.from_numpy(p.numpy()).is_pinned())  # the memory is, whoever holds it
        self.assertTrue(p.untyped_storage().is_pinned())
        self.assertTrue(x.untyped_storage().pin_memory().is_pinned())

    def test_factories(self, device):
        for t in (
            torch.empty(10, pin_memory=True),
            torch.zeros(3, 4, pin_memory=True),
            torch.tensor([1, 2, 3], pin_memory=True),
            torch.randn(5, pin_memory=True),
            torch.full((2,), 7.0, pin_memory=True),
            torch.empty_strided((2, 3), (1, 2), pin_memory=True),
            torch.empty_like(torch.ones(4), pin_memory=True),
        ):
            self.assertTrue(t.is_pinned())
            self.assertEqual(t.device.type, "cpu")
        self.assertEqual(torch.zeros(3, 4, pin_memory=True), torch.zeros(3, 4))
        with self.assertRaisesRegex(RuntimeError, "Only dense CPU tensors can be pinned"):
            torch.empty(3, device=device, pin_memory=True)
        with self.assertRaisesRegex(RuntimeError, "cannot pin"):
            torch.ones(3, device=device).pin_memory()
        self.assertFalse(torch.empty(0, pin_memory=True).is_pinned())

    def test_copies(self, device):
        for dtype in (torch.float32, torch.int64, torch.bool, torch.bfloat16):
            x = torch.randn(50, 60).to(dtype).pin_memory()
            d = x.to(device, non_blocking=True)
            back = torch.empty(50, 60, dtype=dtype, pin_memory=True)
            back.copy_(d, non_blocking=True)
            torch.atalla.synchronize()
            self.assertEqual(back, x)
            strided = x.t()[1:].to(device, non_blocking=True)
            torch.atalla.synchronize()
            self.assertEqual(strided.cpu(), x.t()[1:])

    def test_blocks_are_reused(self, device):
        torch.accelerator.memory.empty_host_cache()
        p = torch.empty(1000, pin_memory=True)
        addr = p.data_ptr()
        del p
        before = torch.atalla.host_memory_stats()["num_host_alloc"]
        q = torch.empty(900, pin_memory=True)  # rounded up to the same power of two
        self.assertEqual(q.data_ptr(), addr)
        self.assertEqual(torch.atalla.host_memory_stats()["num_host_alloc"], before)
        self.assertNotEqual(torch.empty(1000, pin_memory=True).data_ptr(), addr)

    def test_no_reuse_before_the_copy_is_done(self, device):
        """A freed block that a queued copy reads keeps its values until the copy has read them."""
        side = torch.Stream(device)
        source = torch.ones(256, 256, device=device)
        results = []
        for i in range(30):
            p = torch.full((256, 256), float(i), pin_memory=True)
            with side:
                source = source @ source / 256  # something to wait for
                results.append(p.to(device, non_blocking=True))
            del p
            torch.full((256, 256), -1.0, pin_memory=True)  # may only get the block when it was read
        side.synchronize()
        for i, r in enumerate(results):
            self.assertEqual(r.cpu(), torch.full((256, 256), float(i)))

    def test_unpinned_copies_may_be_forgotten(self, device):
        """non_blocking from memory that is not pinned: the source may go, or change, at once."""
        results = []
        for i in range(30):
            x = torch.full((256, 256), float(i))
            results.append(x.to(device, non_blocking=True))
            x.fill_(-1)
            del x
        for i, r in enumerate(results):
            self.assertEqual(r.cpu(), torch.full((256, 256), float(i)))

    def test_download_into_freed_memory(self, device):
        """A queued copy to a pinned tensor that is gone does not write into its successor."""
        side = torch.Stream(device)
        x = torch.full((256, 256), 3.0, device=device)
        side.wait_stream(torch.atalla.current_stream(device))
        for _ in range(20):
            target = torch.empty(256, 256, pin_memory=True)
            with side:
                target.copy_((x @ x) / 256, non_blocking=True)
            del target
            successor = torch.full((256, 256), 9.0, pin_memory=True)
            side.synchronize()
            self.assertEqual(successor, torch.full((256, 256), 9.0))

    def test_statistics(self, device):
        torch.accelerator.memory.empty_host_cache()
        torch.atalla.reset_accumulated_host_memory_stats()
        torch.atalla.reset_peak_host_memory_stats()
        base = torch.atalla.host_memory_stats()
        p = torch.empty(3000, dtype=torch.uint8, pin_memory=True)
        stats = torch.atalla.host_memory_stats()
        self.assertEqual(stats["active_bytes.current"] - base["active_bytes.current"], 4096)
        self.assertEqual(stats["active_requests.current"] - base["active_requests.current"], 1)
        self.assertEqual(stats["allocations.current"] - base["allocations.current"], 1)
        self.assertEqual((stats["num_host_alloc"], stats["num_host_free"]), (1, 0))
        self.assertEqual(stats["host_alloc_time.count"], 1)
        self.assertGreaterEqual(stats["host_alloc_time.max"], stats["host_alloc_time.min"])
        del p
        stats = torch.atalla.host_memory_stats()
        self.assertEqual(stats["active_bytes.current"], base["active_bytes.current"])
        self.assertEqual(stats["allocated_bytes.current"] - base["allocated_bytes.current"], 4096)
        self.assertGreaterEqual(stats["active_bytes.peak"], base["active_bytes.current"] + 4096)
        torch.atalla.reset_peak_host_memory_stats()
        self.assertEqual(torch.atalla.host_memory_stats()["active_bytes.peak"], base["active_bytes.current"])
        torch.atalla.memory.empty_host_cache()
        stats = torch.atalla.host_memory_stats()
        self.assertEqual(stats["allocated_bytes.current"], base["allocated_bytes.current"])
        self.assertEqual(stats["num_host_free"], 1)
        nested = torch.atalla.memory.host_memory_stats_as_nested_dict()
        self.assertEqual(nested["allocations"]["current"], stats["allocations.current"])

    def test_data_loader(self, device):
        data = TensorDataset(torch.arange(40).float().view(20, 2), torch.arange(20))
        for workers in (0, 2):
            seen = []
            for x, y in DataLoader(data, batch_size=6, num_workers=workers, pin_memory=True):
                self.assertTrue(x.is_pinned() and y.is_pinned())
                seen.append((x.to(device, non_blocking=True), y.to(device, non_blocking=True)))
            self.assertEqual(torch.cat([x for x, _ in seen]).cpu(), data.tensors[0])
            self.assertEqual(torch.cat([y for _, y in seen]).cpu(), data.tensors[1])

    def test_data_loader_of_dicts(self, device):
        for batch in DataLoader(Squares(), batch_size=4, num_workers=2, pin_memory=True):
            self.assertTrue(batch["x"].is_pinned())
            self.assertTrue(batch["y"][0].is_pinned())
            self.assertIsInstance(batch["y"][1][0], str)
            root = batch["x"].to(device, non_blocking=True)[:, 0]
            self.assertEqual((root * root).long().cpu(), batch["y"][0])

    def test_data_loader_on_the_second_device(self, device):
        """The pin thread works for the device that is current when the iterator is made."""
        with torch.atalla.device(1):
            for (x,) in DataLoader(TensorDataset(torch.arange(8)), batch_size=4, num_workers=1, pin_memory=True):
                self.assertEqual(x.to("atalla", non_blocking=True).device.index, 1)
                self.assertTrue(x.is_pinned())


instantiate_device_type_tests(TestPinnedMemory, globals(), only_for=("atalla",))


class TestSuite(TestCase):
    def test_the_suite_was_instantiated(self):
        suite = next(c for c in list(globals().values()) if getattr(c, "device_type", None) and issubclass(c, TestCase))
        self.assertGreaterEqual(sum(name.startswith("test_") for name in dir(suite)), 11)
