# SPDX-License-Identifier: BSD-3-Clause
"""The allocator's settings, and what the profiler sees of memory."""

import os
import tempfile

import torch
from memory_suite import MIB, child, fresh, settings
from opinfo_suite import collected
from torch.testing._internal.common_device_type import instantiate_device_type_tests
from torch.testing._internal.common_utils import TestCase


class TestSettings(TestCase):
    def setUp(self):
        super().setUp()
        fresh()

    def test_max_split_size(self, device):
        with settings("max_split_size_mb:32"):
            torch.empty(64 * MIB, device=device, dtype=torch.int8)
            stats = torch.atalla.memory_stats(device)
            self.assertEqual(stats["max_split_size"], 32 * MIB)
            self.assertEqual(stats["oversize_segments.current"], 1)
            self.assertEqual(stats["oversize_allocations.peak"], 1)
            t = torch.empty(16 * MIB, device=device, dtype=torch.int8)  # does not take a part of it
            self.assertEqual(torch.atalla.memory_stats(device)["segment.large_pool.current"], 2)
            del t
        self.assertEqual(torch.atalla.memory_stats(device)["max_split_size"], -1)

    def test_rounding(self, device):
        with settings("roundup_power2_divisions:4"):
            base = torch.atalla.memory_allocated(device)
            t = torch.empty(5000, device=device, dtype=torch.int8)
            self.assertEqual(torch.atalla.memory_allocated(device) - base, 5120)
            u = torch.empty(1200 * 1024, device=device, dtype=torch.int8)
            self.assertEqual(torch.atalla.memory_allocated(device) - base, 5120 + 1280 * 1024)
            del t, u

    def test_garbage_collection(self, device):
        total = torch.atalla.mem_get_info(device)[1]
        try:
            torch.atalla.set_per_process_memory_fraction(0.5, device)
            with settings("garbage_collection_threshold:0.5"):
                torch.empty(total // 5, device=device, dtype=torch.int8)
                t = torch.empty(total // 4, device=device, dtype=torch.int8)
                stats = torch.atalla.memory_stats(device)
                self.assertEqual(stats["num_alloc_retries"], 0)
                self.assertEqual(stats["num_device_free"], 1)
                del t
        finally:
            torch.atalla.set_per_process_memory_fraction(1.0, device)

    def test_errors(self, device):
        for text, message in (
            ("max_split_size_mb:1", "max_split_size_mb too small"),
            ("garbage_collection_threshold:1.2", "garbage_collect_threshold is invalid"),
            ("roundup_power2_divisions:3", "has to be power of 2"),
            ("no_such_key:1", "no_such_key"),
        ):
            with self.assertRaisesRegex((RuntimeError, ValueError), message, msg=text):
                torch.atalla.memory._set_allocator_settings(text)
        torch.atalla.memory._set_allocator_settings("")

    def test_environment(self, device):
        code = (
            "import torch; t = torch.empty(5000, dtype=torch.int8, device='atalla'); "
            "print(torch.atalla.memory_allocated(), torch.atalla.memory_stats()['max_split_size'])"
        )
        conf = "max_split_size_mb:40,roundup_power2_divisions:[256:4,>:2]"
        for variable in ("TORCH_ATALLA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
            result = child(code, **{variable: conf})
            self.assertEqual(result.stdout.split(), ["5120", str(40 * MIB)], result.stderr)
        # A wrong value is named in one warning, and does not keep torch from being imported.
        for variable in ("TORCH_ATALLA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
            result = child(code, **{variable: "max_split_size_mb:1"})
            self.assertEqual(result.stdout.split(), ["5120", "-1"], result.stderr)
            for part in (variable, "'max_split_size_mb:1'", "large_segment_size_mb", "using the defaults"):
                self.assertIn(part, result.stderr)


class TestProfiler(TestCase):
    def test_memory_columns(self, device):
        x = torch.randn(256, 256, device=device)
        with torch.profiler.profile(profile_memory=True, record_shapes=True) as prof:
            y = x @ x
            z = y.relu()
            del y
        events = {e.key: e for e in prof.key_averages()}
        self.assertEqual(events["aten::mm"].self_device_memory_usage, 256 * 256 * 4)
        self.assertEqual(events["[memory]"].self_device_memory_usage, -256 * 256 * 4)
        self.assertIn("Mem", prof.key_averages().table(sort_by="self_device_memory_usage"))
        reported = [e for e in prof.events() if e.name == "[memory]"]
        self.assertTrue(reported)
        del z

    def test_out_of_memory_is_reported(self, device):
        with torch.profiler.profile(profile_memory=True) as prof:
            with self.assertRaises(torch.OutOfMemoryError):
                torch.empty(1 << 42, device=device, dtype=torch.int8)
        names = [e.name for e in prof.events()]
        self.assertIn("[OutOfMemory]", names)

    def test_memory_timeline(self, device):
        model = torch.nn.Linear(64, 64, device=device)
        with torch.profiler.profile(profile_memory=True, record_shapes=True, with_stack=True) as prof:
            model(torch.randn(8, 64, device=device)).sum().backward()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "timeline.json")
            prof.export_memory_timeline(path, device="atalla:0")
            with open(path) as file:
                text = file.read()
        self.assertGreater(len(text), 100)
        from torch.cuda import _memory_viz

        self.assertIn("Active Memory Timeline", _memory_viz.profile_plot(prof))

    def test_no_report_without_profiler(self, device):
        with torch.profiler.profile(profile_memory=False) as prof:
            torch.empty(1 << 20, device=device)
        self.assertTrue(all(e.self_device_memory_usage == 0 for e in prof.key_averages()))


SUITES = (TestSettings, TestProfiler)
NAMES = tuple(suite.__name__ for suite in SUITES)
for _suite in SUITES:
    instantiate_device_type_tests(_suite, globals(), only_for=("atalla",))


def test_count() -> None:
    assert sum(collected(globals(), name) for name in NAMES) >= 11
