# SPDX-License-Identifier: BSD-3-Clause
"""torch.atalla as users of torch.cuda know it: devices, properties, streams, synchronisation, old type names, comm."""

import subprocess
import sys
import threading
import unittest
import warnings

import models
import torch
from torch.testing._internal.common_utils import TestCase

import torch_atalla
from torch_atalla import energy, telemetry
from torch_atalla.cli import info
from torch_atalla.device import sampling
from torch_atalla.device.work import DeviceWork

TWO_DEVICES = unittest.skipIf(torch.atalla.device_count() < 2, "needs two devices")


class TestDevices(TestCase):
    @TWO_DEVICES
    def test_device_context(self):
        for given in (1, "atalla:1", torch.device("atalla:1")):
            with torch.atalla.device(given):
                self.assertEqual(torch.atalla.current_device(), 1)
                with torch.atalla.device(-1):
                    self.assertEqual(torch.atalla.current_device(), 1)
                with torch.atalla.device(None):
                    self.assertEqual(torch.atalla.current_device(), 1)
            self.assertEqual(torch.atalla.current_device(), 0)
        with self.assertRaises(ZeroDivisionError), torch.atalla.device(1):
            raise ZeroDivisionError
        self.assertEqual(torch.atalla.current_device(), 0)

    @TWO_DEVICES
    def test_device_of(self):
        for obj in (torch.ones(1, device="atalla:1"), torch.ones(1, device="atalla:1").untyped_storage()):
            with torch.atalla.device_of(obj):
                self.assertEqual(torch.atalla.current_device(), 1)
            with torch.atalla.device(1), torch.atalla.device_of(torch.ones(1)):
                self.assertEqual(torch.atalla.current_device(), 1)
        self.assertEqual(torch.atalla.current_device(), 0)

    def test_set_device(self):
        torch.atalla.set_device(-1)
        self.assertEqual(torch.atalla.current_device(), 0)
        with self.assertRaisesRegex(ValueError, "Expected an atalla device, but got: cpu"):
            torch.atalla.set_device("cpu")
        with self.assertRaisesRegex(RuntimeError, "invalid device ordinal"):
            torch.atalla.set_device(torch.atalla.device_count())
        with self.assertRaisesRegex(RuntimeError, "invalid device ordinal"):
            torch.empty(1, device=f"atalla:{torch.atalla.device_count()}")
        self.assertEqual(torch.atalla.current_device(), 0)

    def test_threads_start_on_device_0(self):
        found = []
        with torch.atalla.device(torch.atalla.device_count() - 1):
            thread = threading.Thread(target=lambda: found.append(torch.atalla.current_device()))
            thread.start()
            thread.join()
        self.assertEqual(found, [0])

    def test_peers(self):
        last = torch.atalla.device_count() - 1
        self.assertFalse(torch.atalla.can_device_access_peer(0, 0))
        if last > 0:
            self.assertTrue(torch.atalla.can_device_access_peer(0, last))
        with self.assertRaisesRegex(AssertionError, "Invalid device id"):
            torch.atalla.can_device_access_peer(last + 1, 0)
        with self.assertRaisesRegex(AssertionError, "Invalid peer device id"):
            torch.atalla.can_device_access_peer(0, last + 1)

    def test_device_index_of_torch_utils(self):
        self.assertEqual(torch.atalla._utils._get_device_index("atalla:1"), 1)
        self.assertEqual(torch.atalla._utils._get_device_index("cpu", allow_cpu=True), -1)
        with self.assertRaisesRegex(ValueError, "with a specified index or an integer"):
            torch.atalla._utils._get_device_index(None, optional=False)
        self.assertEqual(torch._utils._get_device_index("atalla", optional=True), torch.atalla.current_device())
        self.assertEqual(torch._utils._get_all_device_indices(), list(range(torch.atalla.device_count())))

    def test_initialisation(self):
        code = (
            "import torch\n"
            "last = torch.atalla.device_count() - 1\n"
            "torch.atalla.manual_seed_all(3); torch.atalla.set_device(0)\n"
            "assert not torch.atalla.is_initialized()\n"
            "torch.ones(1, device=torch.device('atalla', last))\n"
            "assert torch.atalla.is_initialized()\n"
            "calls = []; torch.atalla._lazy_call(lambda: calls.append(1)); assert calls == [1]\n"
        )
        subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


class TestSampling(TestCase):
    """power_draw and others, over the latest work: against the records of that work, counted in another way."""

    def test_the_latest_work(self):
        x = torch.randn(128, 128, device="atalla:0")
        torch.atalla.synchronize()
        for _ in range(3):
            x = torch.relu(x @ x)
        x.cpu()
        work = telemetry.work(0)[-sampling.PERIOD :]
        clock_hz = torch.atalla.get_device_properties(0).clock_hz
        begin, end = min(w.start_cycle for w in work), max(w.end_cycle for w in work)
        spent = energy.of([DeviceWork(0, clock_hz, 0, tuple(work))])
        self.assertEqual(torch.atalla.power_draw(0), round(1e3 * spent.watts(end - begin, clock_hz)))
        self.assertGreater(torch.atalla.power_draw(0), 0)
        busy = {cycle for w in work if w.kind == "launch" for cycle in range(w.start_cycle // 64, w.end_cycle // 64)}
        self.assertAlmostEqual(torch.atalla.utilization(0), 100 * len(busy) * 64 / (end - begin), delta=2)
        moving = sum(w.sdma_cycles for w in work) / (end - begin)
        self.assertEqual(torch.atalla.memory_usage("atalla:0"), round(100 * moving))
        self.assertTrue(0 < torch.atalla.memory_usage(0) <= 100 and 0 < torch.atalla.utilization(0) <= 100)

    def test_overlapping_work_counts_once(self):
        self.assertEqual(sampling._union([(5, 9), (0, 4), (3, 6), (20, 20), (8, 9)]), 9)

    @TWO_DEVICES
    def test_a_device_without_work(self):
        code = (
            "import torch; from torch_atalla import energy\n"
            "clock = round(torch.atalla.get_device_properties(1).clock_hz)\n"
            "assert torch.atalla.power_draw(1) == round(1e3 * energy.idle(clock, 1).joules) > 0\n"
            "assert torch.atalla.utilization(1) == torch.atalla.memory_usage(1) == 0"
        )
        subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


class TestProperties(TestCase):
    def test_numbers_are_the_chips(self):
        p, config = torch.atalla.get_device_properties(0), torch_atalla.chip.config(0)
        self.assertEqual(p.clock_hz, config["chip"]["clock_hz"]["value"])
        self.assertEqual(p.scratchpads, config["scratchpad"]["count"]["value"])
        self.assertEqual(p.vector_lanes, config["vector"]["lanes"]["value"])
        self.assertEqual(p.memory_bus_width, 8 * config["bus"]["width_bytes"]["value"])
        self.assertEqual(p.clock_rate * 1000, p.clock_hz)
        self.assertEqual(torch.atalla.clock_rate() * 10**6, p.clock_hz)
        self.assertEqual(torch.atalla.get_device_name(), config["chip"]["name"]["value"])
        self.assertEqual(p.multi_processor_count, config["core"]["count"]["value"])

    def test_text(self):
        text = repr(torch.atalla.get_device_properties(0))
        self.assertRegex(
            text, r"^_AtallaDeviceProperties\(name='.+', ordinal=0, major=1, minor=\d+, total_memory=\d+MB, "
        )
        self.assertIn("clock=800MHz", text)

    def test_invalid_ordinals(self):
        for function in (torch.atalla.get_device_properties, torch.atalla.get_device_name):
            for device in (-1, torch.atalla.device_count()):
                with self.assertRaisesRegex(AssertionError, "Invalid device id"):
                    function(device)

    def test_capability(self):
        major, minor = torch.atalla.get_device_capability("atalla:0")
        self.assertEqual(f"{major}.{minor}", info.versions()["device_abi"])
        self.assertEqual(torch.atalla.get_arch_list(), ["ax01"])

    def test_dtypes(self):
        self.assertTrue(torch.atalla.is_bf16_supported())
        self.assertFalse(torch.atalla.is_tf32_supported())
        x = torch.full((1, 1), 1 + 2**-20, device="atalla")
        self.assertEqual((x @ torch.ones(1, 1, device="atalla")).item(), 1 + 2**-20)  # no bit is lost, as tf32 would
        self.assertIs(torch.atalla.OutOfMemoryError, torch.cuda.OutOfMemoryError)


class TestStreams(TestCase):
    def test_streams_have_the_devices_class(self):
        for stream in (torch.atalla.current_stream(), torch.atalla.default_stream(), torch.atalla.Stream()):
            self.assertIs(type(stream), torch.atalla.Stream)
            self.assertEqual(stream.device.type, "atalla")
            self.assertRegex(repr(stream), r"^<torch.atalla.Stream device=atalla:0 atalla_stream=0x[0-9a-f]+>$")
        self.assertEqual(torch.atalla.current_stream(), torch.atalla.default_stream())
        self.assertEqual(torch.atalla.current_stream(), torch.accelerator.current_stream())
        self.assertEqual(hash(torch.atalla.current_stream()), hash(torch.atalla.default_stream()))

    def test_priorities(self):
        least, greatest = torch.atalla.Stream.priority_range()
        self.assertLess(greatest, least)
        for asked, given in ((0, 0), (-1, -1), (-7, greatest), (7, least)):
            self.assertEqual(torch.atalla.Stream(priority=asked).priority, given)

    def test_context(self):
        previous = torch.atalla.current_stream()
        stream = torch.atalla.Stream()
        with torch.atalla.stream(stream):
            self.assertEqual(torch.atalla.current_stream(), stream)
            with torch.atalla.stream(None):
                self.assertEqual(torch.atalla.current_stream(), stream)
            x = torch.ones(3, device="atalla") + 1
        self.assertEqual(torch.atalla.current_stream(), previous)
        torch.atalla.current_stream().wait_stream(stream)
        self.assertEqual(x.tolist(), [2, 2, 2])
        torch.atalla.set_stream(None)
        self.assertEqual(torch.atalla.current_stream(), previous)

    @TWO_DEVICES
    def test_context_of_another_device(self):
        here, there = torch.atalla.current_stream(0), torch.atalla.current_stream(1)
        stream = torch.atalla.Stream(device=1)
        with torch.atalla.StreamContext(stream):
            self.assertEqual(torch.atalla.current_device(), 1)
            self.assertEqual(torch.atalla.current_stream(), stream)
        self.assertEqual(torch.atalla.current_device(), 0)
        self.assertEqual(torch.atalla.current_stream(0), here)
        self.assertEqual(torch.atalla.current_stream(1), there)

    def test_external_streams(self):
        stream = torch.atalla.Stream()
        same = torch.atalla.ExternalStream(stream.atalla_stream)
        self.assertEqual(same, stream)
        self.assertEqual(torch.atalla.get_stream_from_external(stream.atalla_stream, 0), stream)
        self.assertEqual(stream._as_parameter_.value, stream.atalla_stream)
        with torch.atalla.stream(same):
            self.assertEqual(torch.atalla.current_stream(), stream)
        with self.assertRaisesRegex(RuntimeError, "is not a stream of an atalla device"):
            torch.atalla.ExternalStream(12345)
        if torch.atalla.device_count() > 1:
            with self.assertRaisesRegex(RuntimeError, "Expected a stream of atalla:1"):
                torch.atalla.ExternalStream(stream.atalla_stream, device=1)

    def test_events(self):
        event = torch.atalla.Event(enable_timing=True)
        self.assertIsInstance(event, torch.atalla.Event)
        self.assertNotIsInstance(torch.atalla.Stream(), torch.atalla.Event)
        stream = torch.atalla.Stream()
        event.record(stream)
        later = torch.atalla.Event(enable_timing=True)
        later.record(stream)
        later.synchronize()
        self.assertEqual(event.elapsed_time(later), 0)
        torch.Stream(device="atalla").record_event(event)  # generic streams take it
        event.wait()
        event.wait(stream)
        event.synchronize()
        self.assertTrue(event.query())
        made = stream.record_event()
        self.assertIsInstance(made, torch.atalla.Event)
        self.assertIs(stream.record_event(event), event)
        stream.wait_event(made)
        for share in (
            lambda: torch.atalla.Event(interprocess=True),
            lambda: torch.atalla.Event.from_ipc_handle(0, b""),
        ):
            with self.assertRaisesRegex(NotImplementedError, "cannot be shared between processes"):
                share()


class TestSyncDebug(TestCase):
    def tearDown(self):
        torch.atalla.set_sync_debug_mode(0)
        super().tearDown()

    def test_modes(self):
        self.assertEqual(torch.atalla.get_sync_debug_mode(), 0)
        for given, mode in (("warn", 1), ("error", 2), ("default", 0), (1, 1), (2, 2), (0, 0)):
            torch.atalla.set_sync_debug_mode(given)
            self.assertEqual(torch.atalla.get_sync_debug_mode(), mode)
        with self.assertRaisesRegex(RuntimeError, "expected one of `default`, `warn`, `error`"):
            torch.atalla.set_sync_debug_mode("loud")
        with self.assertRaisesRegex(RuntimeError, "invalid value of debug_mode"):
            torch.atalla.set_sync_debug_mode(3)

    def test_waiting_calls_are_found(self):
        x = torch.ones(4, device="atalla")
        mask = x > 0
        host = torch.empty(4)
        waiting = {
            "item": lambda: x[0].item(),
            "bool": lambda: bool(mask.all()),
            "cpu": lambda: x.cpu(),
            "copy_": lambda: host.copy_(x),
            "nonzero": lambda: mask.nonzero(),
            "mask": lambda: x[mask],
            "equal": lambda: torch.equal(x, x),
            "stream": lambda: torch.atalla.current_stream().synchronize(),
        }
        for name, call in waiting.items():
            torch.atalla.set_sync_debug_mode("warn")
            with self.assertWarnsRegex(UserWarning, "called a synchronizing atalla operation", msg=name):
                call()
            torch.atalla.set_sync_debug_mode("error")
            with self.assertRaisesRegex(RuntimeError, "called a synchronizing atalla operation", msg=name):
                call()
            torch.atalla.set_sync_debug_mode("default")
            call()

    def test_other_calls_stay_silent(self):
        x = torch.randn(8, 8, device="atalla", requires_grad=True)
        pinned = torch.ones(8, 8).pin_memory()
        torch.atalla.set_sync_debug_mode("error")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            (x @ x).relu().softmax(-1).sum().backward()
            y = pinned.to("atalla", non_blocking=True)
            torch.ones(3).to("atalla")  # the bytes are taken over at once, and the copy is queued
            pinned.copy_(y, non_blocking=True)
            z = torch.where(x > 0, x, y).masked_fill(x > 1, 0)
            torch.atalla.synchronize()
        torch.atalla.set_sync_debug_mode("default")
        self.assertEqual(z.shape, (8, 8))

    def test_the_fallback_is_found(self):
        x = torch.ones(3, device="atalla")
        with torch_atalla.fallback.mode("silent"):
            torch.atalla.set_sync_debug_mode("error")
            with self.assertRaisesRegex(RuntimeError, "synchronizing"):
                models.add_relu(x, 0.1)


class TestOldTypes(TestCase):
    def test_tensor_types(self):
        x = torch.atalla.FloatTensor([1, 2, 3])
        self.assertEqual(x.cpu(), torch.tensor([1.0, 2, 3]))
        self.assertEqual(torch.atalla.LongTensor(2, 3).shape, (2, 3))
        self.assertEqual(torch.atalla.BoolTensor(0).dtype, torch.bool)
        self.assertIsInstance(x, torch.atalla.FloatTensor)
        self.assertNotIsInstance(x, torch.atalla.HalfTensor)
        self.assertNotIsInstance(x.cpu(), torch.atalla.FloatTensor)
        for name in ("BFloat16", "Bool", "Byte", "Char", "Double", "Float", "Half", "Int", "Long", "Short"):
            cls = getattr(torch.atalla, f"{name}Tensor")
            moved = torch.ones(2).type(cls)
            self.assertEqual((moved.dtype, moved.device.type), (cls.dtype, "atalla"))
            self.assertEqual(moved.type(), f"torch.atalla.{name}Tensor")
            self.assertIsInstance(moved, cls)

    def test_storage_types(self):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # TypedStorage is deprecated
            storage = torch.ones(3, device="atalla").storage()
            self.assertIsInstance(storage, torch.atalla.FloatStorage)
            self.assertNotIsInstance(storage, torch.atalla.IntStorage)
            self.assertNotIsInstance(torch.ones(3).storage(), torch.atalla.FloatStorage)
            self.assertEqual(storage.type(), "torch.atalla.FloatStorage")
            made = torch.atalla.IntStorage(5)
            self.assertEqual((made.device.type, made.dtype, len(made)), ("atalla", torch.int32, 5))
            self.assertTrue(torch.is_storage(made))
            with self.assertRaisesRegex(RuntimeError, "Not available for atalla storage"):
                torch.atalla.FloatStorage.from_buffer(b"")


class TestComm(TestCase):
    def setUp(self):
        super().setUp()
        if torch.atalla.device_count() < 2:
            self.skipTest("needs two devices")

    def test_broadcast(self):
        for x in (torch.randn(3, 4), torch.randn(3, 4, device="atalla:0")):
            found = torch.atalla.comm.broadcast(x, ["atalla:0", 1])
            self.assertEqual([t.device.index for t in found], [0, 1])
            for t in found:
                self.assertEqual(t.cpu(), x.cpu())
        out = [torch.empty(3, 4, device="atalla:1")]
        torch.atalla.comm.broadcast(x, out=out)
        self.assertEqual(out[0].cpu(), x.cpu())
        with self.assertRaisesRegex(RuntimeError, "Exactly one of 'devices' and 'out'"):
            torch.atalla.comm.broadcast(x)
        with self.assertRaisesRegex(RuntimeError, "same shape as the source tensor"):
            torch.atalla.comm.broadcast(x, out=[torch.empty(2, device="atalla:1")])
        with self.assertRaisesRegex(RuntimeError, "to be atalla tensors"):
            torch.atalla.comm.broadcast(x, out=[torch.empty(3, 4)])

    def test_broadcast_coalesced(self):
        dtypes = (torch.float32, torch.int64, torch.float32, torch.float16)
        tensors = [torch.arange(10 + i, device="atalla:0").to(d) for i, d in enumerate(dtypes)]
        found = torch.atalla.comm.broadcast_coalesced(tensors, [0, 1], buffer_size=64)
        for t, here, there in zip(tensors, *found):
            self.assertIs(here, t)
            self.assertEqual(there.device.index, 1)
            self.assertEqual(there.cpu(), t.cpu())
        with self.assertRaisesRegex(RuntimeError, r"must be on devices\[0\]"):
            torch.atalla.comm.broadcast_coalesced(tensors, [1, 0])

    def test_scatter(self):
        for x in (torch.randn(5, 4), torch.randn(5, 4, device="atalla:1")):
            for sizes, dim in ((None, 0), ([2, 3], 0), ([1, 3], 1)):
                found = torch.atalla.comm.scatter(x, [0, 1], sizes, dim)
                expected = x.cpu().chunk(2, dim) if sizes is None else x.cpu().split(sizes, dim)
                self.assertEqual([t.device.index for t in found], [0, 1])
                for t, e in zip(found, expected):
                    self.assertEqual(t.cpu(), e)
        out = [torch.empty(2, 4, device="atalla:0"), torch.empty(3, 4, device="atalla:1")]
        torch.atalla.comm.scatter(x, out=out)
        self.assertEqual(torch.cat([t.cpu() for t in out]), x.cpu())
        with self.assertRaisesRegex(RuntimeError, "does not match the source tensor size"):
            torch.atalla.comm.scatter(x, out=out[:1])
        with self.assertRaisesRegex(RuntimeError, "to be of same length"):
            torch.atalla.comm.scatter(x, [0, 1], [5])

    def test_gather(self):
        parts = [torch.randn(2, 3, device="atalla:0"), torch.randn(4, 3, device="atalla:1")]
        expected = torch.cat([t.cpu() for t in parts])
        for destination in (0, "atalla:1", "cpu", None):
            found = torch.atalla.comm.gather(parts, destination=destination)
            self.assertEqual(found.cpu(), expected)
            self.assertEqual(found.device.type, "cpu" if destination == "cpu" else "atalla")
        out = torch.empty(6, 3, device="atalla:1")
        torch.atalla.comm.gather(parts, out=out)
        self.assertEqual(out.cpu(), expected)
        with self.assertRaisesRegex(RuntimeError, "Expected out tensor to have shape"):
            torch.atalla.comm.gather(parts, out=out[:1])

    def test_reduce_add(self):
        parts = [torch.randn(3, device="atalla:0"), torch.randn(3, device="atalla:1")]
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # NCCL is no topic here
            for destination in (0, 1):
                found = torch.atalla.comm.reduce_add(parts, destination)
                self.assertEqual(found.device.index, destination)
                self.assertEqual(found.cpu(), parts[0].cpu() + parts[1].cpu())
            lists = [[t, t.view(1, 3) * 2] for t in parts]
            first, second = torch.atalla.comm.reduce_add_coalesced(lists, 0)
        self.assertEqual(first.cpu(), parts[0].cpu() + parts[1].cpu())
        self.assertEqual(second.cpu(), 2 * first.cpu().view(1, 3))

    def test_data_parallel(self):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
        x, y = torch.randn(6, 4), torch.randn(6, 2)
        torch.nn.functional.mse_loss(model(x), y).backward()
        expected = [p.grad.clone() for p in model.parameters()]
        model.zero_grad()
        model.to("atalla:0")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            parallel = torch.nn.DataParallel(model)
            output = parallel(x.to("atalla:0"))
            torch.nn.functional.mse_loss(output, y.to("atalla:0")).backward()
        self.assertEqual(output.device.index, 0)
        for p, e in zip(model.parameters(), expected):
            self.assertEqual(p.grad.cpu(), e, atol=1e-5, rtol=1e-5)
        self.assertEqual(parallel(x).cpu(), output.detach().cpu(), atol=1e-6, rtol=1e-6)  # from the host, on streams


class TestRanges(TestCase):
    def recorded(self, body) -> list[str]:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as prof:
            body()
        return [event.name for event in prof.events()]

    def test_ranges_are_spans_of_the_profiler(self):
        def body():
            self.assertEqual(torch.atalla.nvtx.range_push("outer"), 0)
            self.assertEqual(torch.atalla.nvtx.range_push("inner"), 1)
            torch.ones(2, device="atalla")
            self.assertEqual(torch.atalla.nvtx.range_pop(), 1)
            torch.atalla.nvtx.mark("moment")
            self.assertEqual(torch.atalla.nvtx.range_pop(), 0)
            with torch.atalla.nvtx.range("step {}", 3):
                torch.ones(2)
            handle = torch.atalla.nvtx.range_start("long")
            torch.atalla.nvtx.range_end(handle)
            torch.atalla.nvtx.range_end(handle)  # nothing happens

        names = self.recorded(body)
        for name in ("outer", "inner", "moment", "step 3", "long"):
            self.assertEqual(names.count(name), 1, name)

    def test_without_profiler(self):
        self.assertEqual(torch.atalla.nvtx.range_pop(), -1)
        self.assertEqual(torch.atalla.nvtx.range_push("x"), 0)
        self.assertEqual(torch.atalla.nvtx.range_pop(), 0)
