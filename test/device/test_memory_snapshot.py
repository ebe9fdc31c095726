# SPDX-License-Identifier: BSD-3-Clause
"""Memory snapshots and history, and that torch.cuda._memory_viz draws them."""

import gc
import os
import pickle
import sys
import tempfile

import torch
from torch.cuda import _memory_viz
from torch.testing._internal.common_device_type import instantiate_device_type_tests
from torch.testing._internal.common_utils import TestCase

MIB = 1 << 20
memory = torch.atalla.memory


def make_tensor(size: int, device: str) -> torch.Tensor:
    return torch.empty(size, device=device, dtype=torch.uint8)


class TestMemorySnapshot(TestCase):
    def setUp(self):
        super().setUp()
        gc.collect()
        torch.atalla.synchronize()
        torch.atalla.empty_cache()

    def tearDown(self):
        memory._record_memory_history(None, clear_history=True)
        super().tearDown()

    def traced(self, device):
        return memory._snapshot()["device_traces"][torch.device(device).index or 0]

    def test_segments(self, device):
        # In a pool of their own, so that they lie in new segments whatever else the process has cached.
        pool = torch.atalla.MemPool()
        with torch.atalla.use_mem_pool(pool, device):
            large, small = make_tensor(12 * MIB, device), make_tensor(1000, device)
        outside = make_tensor(1000, device)
        allocated, reserved = torch.atalla.memory_allocated(device), torch.atalla.memory_reserved(device)
        segments = [s for s in torch.atalla.memory_snapshot() if s["device"] == (torch.device(device).index or 0)]
        self.assertEqual(sum(s["total_size"] for s in segments), reserved)
        self.assertEqual(sum(s["allocated_size"] for s in segments), allocated)
        self.assertEqual(segments, sorted(segments, key=lambda s: s["address"]))
        for segment in segments:
            address = segment["address"]
            for block in segment["blocks"]:
                self.assertEqual(block["address"], address)
                address += block["size"]
            self.assertEqual(address, segment["address"] + segment["total_size"])
            self.assertFalse(segment["is_expandable"])
        blocks = {b["address"]: (b, s) for s in segments for b in s["blocks"]}
        self.assertEqual(blocks[outside.data_ptr()][1]["segment_pool_id"], (0, 0))
        block, segment = blocks[small.data_ptr()]
        self.assertEqual((block["size"], block["requested_size"], block["state"]), (1024, 1000, "active_allocated"))
        self.assertEqual((segment["segment_type"], segment["total_size"]), ("small", 2 * MIB))
        self.assertEqual(segment["segment_pool_id"], pool.id)
        self.assertEqual([b["state"] for b in segment["blocks"]], ["active_allocated", "inactive"])
        block, segment = blocks[large.data_ptr()]
        self.assertEqual((segment["segment_type"], segment["total_size"], block["size"]), ("large", 12 * MIB, 12 * MIB))
        self.assertEqual(segment["segment_pool_id"], pool.id)

    def test_history(self, device):
        memory._record_memory_history(stacks="python")
        t = make_tensor(64 * MIB, device)
        addr = t.data_ptr()
        del t
        torch.atalla.empty_cache()
        trace = [e for e in self.traced(device) if e["action"] != "snapshot"]
        actions = [e["action"] for e in trace]
        self.assertEqual(actions, ["segment_alloc", "alloc", "free_requested", "free_completed", "segment_free"])
        for entry in trace:
            self.assertEqual((entry["addr"], entry["size"], entry["stream"]), (addr, 64 * MIB, 0))
            self.assertEqual(entry["pool_id"], (0, 0))
        times = [e["time_us"] for e in trace]
        self.assertEqual(times, sorted(times))
        frame = trace[1]["frames"][0]
        self.assertEqual(
            (frame["name"], os.path.basename(frame["filename"])), ("make_tensor", "test_memory_snapshot.py")
        )
        self.assertEqual(frame["line"], make_tensor.__code__.co_firstlineno + 1)
        self.assertEqual(trace[2]["frames"][0]["name"], self._testMethodName.removesuffix("_atalla"))

    def test_frames_of_blocks(self, device):
        old = make_tensor(1000, device)
        memory._record_memory_history("state", stacks="python")
        new = make_tensor(2000, device)
        blocks = {b["address"]: b for s in memory._snapshot()["segments"] for b in s["blocks"]}
        self.assertEqual(blocks[old.data_ptr()]["frames"], [])
        self.assertEqual(blocks[new.data_ptr()]["frames"][0]["name"], "make_tensor")
        self.assertEqual(memory._allocation_traceback(new.data_ptr())[0]["name"], "make_tensor")
        self.assertIsNone(memory._allocation_traceback(old.data_ptr()))
        self.assertIsNone(memory._allocation_traceback(123))
        self.assertEqual(self.traced(device), [])  # "state" keeps no entries
        memory._record_memory_history(None)
        later = make_tensor(3000, device)
        self.assertIsNone(memory._allocation_traceback(later.data_ptr()))

    def test_contexts(self, device):
        for context, alloc, free in (
            (None, False, False),
            ("state", False, False),
            ("alloc", True, True),
            ("all", 1, 1),
        ):
            memory._record_memory_history(context=context, stacks="python", clear_history=True)
            t = make_tensor(1000, device)
            self.assertEqual(memory._allocation_traceback(t.data_ptr()) is not None, context is not None)
            del t
            trace = {e["action"]: e for e in self.traced(device)}
            self.assertEqual(bool(trace["alloc"]["frames"]), bool(alloc), msg=context)
            self.assertEqual(bool(trace["free_requested"]["frames"]), bool(free), msg=context)
            if context == "alloc":  # frees carry the stack of their allocation
                self.assertEqual(trace["free_requested"]["frames"], trace["alloc"]["frames"])

    def test_cpp_stacks(self, device):
        memory._record_memory_history(stacks="all")
        t = make_tensor(1000, device)
        frames = memory._allocation_traceback(t.data_ptr())
        names = [f["name"] for f in frames]
        self.assertTrue(any("empty" in name and "::" in name for name in names), names[:30])
        self.assertIn("make_tensor", names)

    def test_max_entries(self, device):
        memory._record_memory_history(stacks="python", max_entries=5)
        sizes = [512 * (i + 1) for i in range(10)]
        for size in sizes:
            make_tensor(size, device)
        trace = self.traced(device)
        self.assertEqual(len(trace), 5)
        self.assertEqual(trace[-1]["action"], "snapshot")
        self.assertEqual(trace[-2]["action"], "free_completed")
        self.assertEqual(trace[-2]["size"], sizes[-1])
        memory._record_memory_history(stacks="python", clear_history=True)
        self.assertEqual([e["action"] for e in self.traced(device)], ["snapshot"])

    def test_skip_actions(self, device):
        memory._record_memory_history(stacks="python", skip_actions=["free_requested", "snapshot"])
        make_tensor(1000, device)
        actions = {e["action"] for e in self.traced(device)}
        self.assertEqual(actions - {"segment_alloc"}, {"alloc", "free_completed"})
        with self.assertRaisesRegex(ValueError, "Unknown action in skip_actions: allocs"):
            memory._record_memory_history(skip_actions=["allocs"])

    def test_options(self, device):
        with self.assertRaisesRegex(RuntimeError, "expected state to be 'state', 'all', or None"):
            memory._record_memory_history("some")
        with self.assertRaisesRegex(RuntimeError, "expected context to be"):
            memory._record_memory_history(context="some")
        with self.assertRaisesRegex(RuntimeError, "expected stacks to be"):
            memory._record_memory_history(stacks="some")
        with self.assertRaises(NotImplementedError):
            memory._record_memory_history(global_record_annotations=True)

    def test_out_of_memory_entry(self, device):
        memory._record_memory_history(stacks="python")
        with self.assertRaises(torch.OutOfMemoryError):
            make_tensor(1 << 42, device)
        entry = [e for e in self.traced(device) if e["action"] == "oom"][-1]
        self.assertEqual((entry["size"], entry["device_free"]), (1 << 42, torch.atalla.mem_get_info(device)[0]))
        self.assertNotIn("addr", entry)
        self.assertEqual(entry["frames"][0]["name"], "make_tensor")

    def test_metadata(self, device):
        memory._record_memory_history(stacks="python")
        memory._set_memory_metadata("epoch 3")
        self.assertEqual(memory._get_memory_metadata(), "epoch 3")
        t = make_tensor(1000, device)
        memory._set_memory_metadata("")
        del t
        trace = [e for e in self.traced(device) if e["action"] in ("alloc", "free_completed")]
        self.assertEqual([e["user_metadata"] for e in trace], ["epoch 3", ""])

    def test_pending_free(self, device):
        memory._record_memory_history(stacks="python")
        t = make_tensor(1000, device)
        addr = t.data_ptr()
        side = torch.Stream(device)
        t.record_stream(side)
        del t
        blocks = {b["address"]: b["state"] for s in memory._snapshot()["segments"] for b in s["blocks"]}
        self.assertIn(blocks.get(addr, "inactive"), ("active_pending_free", "inactive"))
        side.synchronize()
        make_tensor(1000, device)
        actions = [e["action"] for e in self.traced(device) if e.get("addr") == addr]
        self.assertEqual(actions.count("free_completed"), actions.count("free_requested"))

    def test_backward_on_other_threads(self, device):
        """Autograd's thread has no Python stack of its own; its allocations are recorded all the same."""
        memory._record_memory_history(stacks="python")
        x = torch.randn(64, 64, device=device, requires_grad=True)
        (x @ x).relu().sum().backward()
        trace = self.traced(device)
        self.assertGreater(sum(e["action"] == "alloc" for e in trace), 4)
        blocks = {b["address"]: b for s in memory._snapshot()["segments"] for b in s["blocks"]}
        self.assertEqual(blocks[x.grad.data_ptr()]["state"], "active_allocated")

    def test_drawing(self, device):
        memory._record_memory_history(stacks="python")
        kept = make_tensor(30 * MIB, device)
        for size in (1000, 3 * MIB):
            make_tensor(size, device)
        with self.assertRaises(torch.OutOfMemoryError):
            make_tensor(1 << 42, device)
        snapshot = memory._snapshot()
        summary = _memory_viz.segsum(snapshot)
        self.assertIn(f"segments: {len(snapshot['segments'])}", summary)
        self.assertIn("30.0MiB allocated", summary)
        text = _memory_viz.trace(snapshot)
        self.assertIn("cudaMalloc", text)  # upstream's word for a segment
        self.assertIn("[0:30.0MiB]", text)
        self.assertIn("raise OutOfMemoryError", text)
        for html in (
            _memory_viz.trace_plot(snapshot),
            _memory_viz.trace_plot(snapshot, plot_segments=True),
            _memory_viz.segment_plot(snapshot),
        ):
            self.assertIn("snapshot.pickle", html)
        self.assertIn("make_tensor", _memory_viz.memory(snapshot, format_flamegraph=lambda lines: lines))
        self.assertIn("make_tensor", _memory_viz.segments(snapshot, format_flamegraph=lambda lines: lines))
        self.assertIn(
            "only_after",
            _memory_viz.compare([], snapshot["segments"], format_flamegraph=lambda lines: lines),
        )
        before = len(snapshot["device_traces"][0])
        _memory_viz.trace_plot(snapshot, filter_freed=True)
        self.assertLess(len(snapshot["device_traces"][0]), before)
        del kept

    def test_dump(self, device):
        memory._record_memory_history(stacks="python", max_entries=sys.maxsize)
        t = make_tensor(1000, device)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "snapshot.pickle")
            memory._dump_snapshot(path)
            with open(path, "rb") as file:
                loaded = pickle.load(file)
        self.assertEqual(set(loaded), {"segments", "device_traces", "allocator_settings", "external_annotations"})
        self.assertEqual(len(loaded["device_traces"]), torch.atalla.device_count())
        self.assertIn(t.data_ptr(), [b["address"] for s in loaded["segments"] for b in s["blocks"]])
        self.assertEqual(loaded["allocator_settings"]["max_split_size"], -1)

    def test_devices(self, device):
        memory._record_memory_history(stacks="python")
        t = torch.empty(1000, device="atalla:1")
        traces = memory._snapshot()["device_traces"]
        self.assertIn(t.data_ptr(), [e.get("addr") for e in traces[1]])
        self.assertNotIn(t.data_ptr(), [e.get("addr") for e in traces[0]])


instantiate_device_type_tests(TestMemorySnapshot, globals(), only_for=("atalla",))


class TestSuite(TestCase):
    def test_the_suite_was_instantiated(self):
        suite = next(c for c in list(globals().values()) if getattr(c, "device_type", None) and issubclass(c, TestCase))
        self.assertGreaterEqual(sum(name.startswith("test_") for name in dir(suite)), 16)
