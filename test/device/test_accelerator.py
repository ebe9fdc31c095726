# SPDX-License-Identifier: BSD-3-Clause
"""torch.accelerator and torch's other device-generic interfaces on atalla: code that never names the device."""

import gc
import threading
import unittest

import torch
from torch.testing._internal.common_device_type import instantiate_device_type_tests
from torch.testing._internal.common_utils import TestCase

ACCELERATOR = torch.accelerator.current_accelerator()
TWO_DEVICES = unittest.skipIf(torch.accelerator.device_count() < 2, "needs two devices")


class TestAccelerator(TestCase):
    def test_public_functions_are_covered(self):
        """A function that a later torch adds must be looked at."""
        known = {
            "Graph", "current_accelerator", "current_device_idx", "current_device_index", "current_stream",
            "device_count", "device_index", "empty_cache", "empty_host_cache", "get_device_capability",
            "get_memory_info", "is_available", "max_memory_allocated", "max_memory_reserved", "memory_allocated",
            "memory_reserved", "memory_stats", "reset_accumulated_memory_stats", "reset_peak_memory_stats",
            "set_device_idx", "set_device_index", "set_stream", "synchronize",
        }  # fmt: skip
        self.assertEqual(set(torch.accelerator.__all__), known)

    def test_current_accelerator(self):
        self.assertEqual(ACCELERATOR, torch.device("atalla"))
        self.assertIsNone(ACCELERATOR.index)
        self.assertEqual(torch.accelerator.current_accelerator(check_available=True), ACCELERATOR)
        self.assertTrue(torch.accelerator.is_available())
        self.assertEqual(torch.accelerator.device_count(), torch.atalla.device_count())
        self.assertIs(torch.get_device_module(), torch.atalla)
        self.assertIs(torch.get_device_module("atalla:1"), torch.atalla)
        self.assertIs(torch.get_device_module(ACCELERATOR), torch.atalla)

    @TWO_DEVICES
    def test_set_device_index(self):
        original = torch.accelerator.current_device_index()
        try:
            for device, expected in ((1, 1), ("atalla:0", 0), (torch.device("atalla", 1), 1)):
                torch.accelerator.set_device_index(device)
                self.assertEqual(torch.accelerator.current_device_index(), expected)
                self.assertEqual(torch.atalla.current_device(), expected)
                self.assertEqual(torch.empty(1, device=ACCELERATOR).device.index, expected)
            with self.assertWarnsRegex(FutureWarning, "set_device_index"):
                torch.accelerator.set_device_idx(0)
            with self.assertWarnsRegex(FutureWarning, "current_device_index"):
                self.assertEqual(torch.accelerator.current_device_idx(), 0)
            torch.accelerator.set_device_index(-1)  # documented to do nothing
            self.assertEqual(torch.accelerator.current_device_index(), 0)
        finally:
            torch.accelerator.set_device_index(original)

    def test_bad_devices(self):
        count = torch.accelerator.device_count()
        with self.assertRaisesRegex(ValueError, "doesn't match the current accelerator"):
            torch.accelerator.set_device_index("cpu")
        with self.assertRaisesRegex(ValueError, "Expected a torch.device with a specified index or an integer"):
            torch.accelerator.set_device_index("atalla")
        with self.assertRaisesRegex(RuntimeError, f"{count}"):
            torch.accelerator.set_device_index(count)
        with self.assertRaisesRegex(RuntimeError, f"{count}"):
            torch.accelerator.synchronize(count)
        self.assertLess(torch.accelerator.current_device_index(), count)

    @TWO_DEVICES
    def test_device_index_context(self):
        original = torch.accelerator.current_device_index()
        other = 1 - original
        with torch.accelerator.device_index(other):
            self.assertEqual(torch.accelerator.current_device_index(), other)
            with torch.accelerator.device_index(None):
                self.assertEqual(torch.accelerator.current_device_index(), other)
            with torch.accelerator.device_index(original):
                self.assertEqual(torch.accelerator.current_device_index(), original)
            self.assertEqual(torch.accelerator.current_device_index(), other)
        self.assertEqual(torch.accelerator.current_device_index(), original)
        with self.assertRaisesRegex(ZeroDivisionError, "division"):
            with torch.accelerator.device_index(other):
                raise ZeroDivisionError("division")
        self.assertEqual(torch.accelerator.current_device_index(), original)

    def test_capability_tells_what_is_true(self):
        dtypes = torch.accelerator.get_device_capability()["supported_dtypes"]
        self.assertEqual(torch.accelerator.get_device_capability("atalla:0")["supported_dtypes"], dtypes)
        for dtype in dtypes:
            x = torch.zeros(3, dtype=dtype, device="atalla")
            for other in dtypes:
                if not dtype.is_complex or other.is_complex:
                    self.assertEqual(x.to(other).cpu(), torch.zeros(3, dtype=other))
        self.assertIn(torch.bfloat16, dtypes)
        self.assertNotIn(torch.float8_e4m3fn, dtypes)


class TestStreamsAndEvents(TestCase):
    def test_current_stream(self):
        stream = torch.accelerator.current_stream()
        self.assertEqual(stream.device, torch.device("atalla", torch.accelerator.current_device_index()))
        self.assertEqual(stream.stream_id, 0)
        other = torch.Stream(device=ACCELERATOR)
        self.assertNotEqual(other, stream)
        torch.accelerator.set_stream(other)
        try:
            self.assertEqual(torch.accelerator.current_stream(), other)
        finally:
            torch.accelerator.set_stream(stream)

    @TWO_DEVICES
    def test_set_stream_changes_the_device(self):
        previous = torch.accelerator.current_stream()
        stream = torch.Stream(device="atalla:1")
        before = torch.accelerator.current_stream(1)
        torch.accelerator.set_stream(stream)
        try:
            self.assertEqual(torch.accelerator.current_device_index(), 1)
            self.assertEqual(torch.accelerator.current_stream(), stream)
            self.assertEqual(torch.accelerator.current_stream("atalla:0"), previous)
        finally:
            torch.accelerator.set_stream(before)
            torch.accelerator.set_stream(previous)
        self.assertEqual(torch.accelerator.current_device_index(), previous.device_index)

    @TWO_DEVICES
    def test_stream_context_manager(self):
        original = torch.accelerator.current_stream()
        with torch.Stream(device=1) as stream:
            self.assertEqual(torch.accelerator.current_stream(), stream)
            self.assertEqual(torch.accelerator.current_device_index(), 1)
            with torch.Stream(device=0) as inner:
                self.assertEqual(torch.accelerator.current_stream(), inner)
            self.assertEqual(torch.accelerator.current_stream(), stream)
        self.assertEqual(torch.accelerator.current_stream(), original)
        self.assertEqual(torch.accelerator.current_device_index(), original.device_index)

    def test_streams_wait_for_each_other(self):
        producer, consumer = torch.Stream(), torch.Stream()
        with producer:
            x = torch.full((256, 256), 2.0, device=ACCELERATOR)
            y = x @ x
        event = producer.record_event()
        consumer.wait_event(event)
        with consumer:
            z = y + 1
        consumer.synchronize()
        self.assertTrue(event.query())
        producer.synchronize()  # the worker takes note of an event before it takes note that nothing is left
        self.assertTrue(producer.query())
        self.assertEqual(z.cpu(), torch.full((256, 256), 1025.0))
        consumer.wait_stream(producer)
        torch.accelerator.synchronize()
        self.assertTrue(consumer.query())

    def test_events_measure_simulated_time(self):
        start, end = torch.Event(enable_timing=True), torch.Event(enable_timing=True)
        x = torch.ones(128, 128, device=ACCELERATOR)
        start.record()
        x @ x
        end.record()
        end.synchronize()
        first = start.elapsed_time(end)
        self.assertGreater(first, 0)
        start.record()
        x @ x
        end.record()
        end.synchronize()
        self.assertEqual(start.elapsed_time(end), first)

    def test_events_without_timing(self):
        event = torch.Event(device=ACCELERATOR)
        self.assertTrue(event.query())  # never recorded: nothing to wait for
        event.synchronize()
        event.record()
        other = torch.Event(device=ACCELERATOR)
        with self.assertRaisesRegex((RuntimeError, ValueError), "timing|recorded"):
            event.elapsed_time(other)

    def test_record_stream_keeps_memory(self):
        torch.accelerator.synchronize()
        side = torch.Stream()
        x = torch.ones(1 << 18, device=ACCELERATOR)
        side.wait_stream(torch.accelerator.current_stream())
        with side:
            total = x.sum()
        x.record_stream(side)
        address = x.data_ptr()
        del x
        torch.accelerator.synchronize()
        self.assertEqual(total.item(), 1 << 18)
        self.assertGreater(address, 0)


class TestMemory(TestCase):
    def test_statistics(self):
        gc.collect()
        torch.accelerator.empty_cache()
        torch.accelerator.reset_peak_memory_stats()
        before = torch.accelerator.memory_allocated()
        self.assertEqual(torch.accelerator.max_memory_allocated(), before)
        x = torch.empty(10 << 20, dtype=torch.uint8, device=ACCELERATOR)
        self.assertEqual(torch.accelerator.memory_allocated(), before + (10 << 20))
        self.assertGreaterEqual(torch.accelerator.memory_reserved(), torch.accelerator.memory_allocated())
        del x
        self.assertEqual(torch.accelerator.memory_allocated(), before)
        self.assertEqual(torch.accelerator.max_memory_allocated(), before + (10 << 20))
        reserved = torch.accelerator.memory_reserved()
        torch.accelerator.empty_cache()
        torch.accelerator.empty_host_cache()
        self.assertLess(torch.accelerator.memory_reserved(), reserved)
        self.assertGreaterEqual(torch.accelerator.max_memory_reserved(), reserved)
        stats = torch.accelerator.memory_stats()
        self.assertEqual(stats["allocated_bytes.all.current"], before)
        torch.accelerator.reset_accumulated_memory_stats()
        self.assertEqual(torch.accelerator.memory_stats()["allocated_bytes.all.allocated"], 0)

    def test_memory_info(self):
        free, total = torch.accelerator.get_memory_info(0)
        self.assertEqual(total, torch.atalla.get_device_properties(0).total_memory)
        self.assertLessEqual(free, total)
        torch.accelerator.empty_cache()
        free, _ = torch.accelerator.get_memory_info(0)
        x = torch.empty(64 << 20, dtype=torch.uint8, device="atalla:0")
        self.assertEqual(free - torch.accelerator.get_memory_info(0)[0], x.nbytes)

    @TWO_DEVICES
    def test_devices_count_apart(self):
        before = torch.accelerator.memory_allocated("atalla:0")
        x = torch.empty(1 << 20, dtype=torch.uint8, device="atalla:1")
        self.assertEqual(torch.accelerator.memory_allocated(0), before)
        self.assertGreaterEqual(torch.accelerator.memory_allocated(1), x.nbytes)


class TestGenericCode(TestCase):
    def test_default_device(self):
        self.assertEqual(torch.get_default_device(), torch.device("cpu"))
        torch.set_default_device("atalla")
        try:
            self.assertEqual(torch.get_default_device().type, "atalla")
            self.assertEqual(torch.zeros(2).device.type, "atalla")
            self.assertEqual(torch.nn.Linear(2, 2).weight.device.type, "atalla")
            self.assertEqual(torch.tensor([1, 2]).device.type, "atalla")
            self.assertEqual(torch.arange(3).tolist(), [0, 1, 2])
        finally:
            torch.set_default_device(None)
        self.assertEqual(torch.zeros(2).device.type, "cpu")

    def test_device_as_context(self):
        with torch.device("atalla"):
            x = torch.randn(3)
            with torch.device("cpu"):
                self.assertEqual(torch.ones(1).device.type, "cpu")
            self.assertEqual(torch.randperm(5).device.type, "atalla")
        self.assertTrue(x.is_atalla)

    def test_data_loader_with_default_device(self):
        data = torch.utils.data.TensorDataset(torch.arange(10.0).view(5, 2))
        with torch.device("atalla"):
            loader = torch.utils.data.DataLoader(
                data, batch_size=2, shuffle=True, generator=torch.Generator("atalla").manual_seed(1)
            )
            rows = torch.cat([batch for (batch,) in loader])
        self.assertEqual(rows.cpu().sort(0).values, torch.arange(10.0).view(5, 2))

    def test_methods_of_tensor_module_and_storage(self):
        x = torch.arange(3.0)
        y = x.atalla()
        self.assertTrue(y.is_atalla)
        self.assertFalse(x.is_atalla)
        self.assertEqual(y.device, torch.device("atalla", torch.atalla.current_device()))
        self.assertEqual(y.get_device(), torch.atalla.current_device())
        self.assertIs(y.atalla(), y)
        model = torch.nn.Linear(2, 2).atalla()
        self.assertTrue(model.weight.is_atalla)
        self.assertFalse(model.cpu().weight.is_atalla)
        storage = x.untyped_storage().atalla()
        self.assertTrue(storage.is_atalla)
        self.assertEqual(torch.empty(0, device="atalla").set_(storage.cpu().atalla()).device.type, "atalla")
        if torch.accelerator.device_count() > 1:
            self.assertEqual(x.atalla(1).device.index, 1)
            self.assertEqual(torch.nn.Linear(2, 2).atalla("atalla:1").bias.device.index, 1)

    def test_packed_sequences(self):
        rows = [torch.arange(3.0), torch.arange(2.0)]
        packed = torch.nn.utils.rnn.pack_sequence(rows)
        moved = packed.atalla()
        self.assertTrue(moved.is_atalla)
        self.assertFalse(packed.is_atalla)
        padded, lengths = torch.nn.utils.rnn.pad_packed_sequence(moved, batch_first=True)
        self.assertEqual(padded.cpu(), torch.tensor([[0.0, 1, 2], [0, 1, 0]]))
        self.assertEqual(lengths.tolist(), [3, 2])

    def test_type_strings(self):
        x = torch.ones(2, device="atalla")
        self.assertEqual(x.type(), "torch.atalla.FloatTensor")
        self.assertEqual(x.half().type(), "torch.atalla.HalfTensor")
        self.assertEqual(x.type("torch.atalla.IntTensor").dtype, torch.int32)
        self.assertTrue(torch.ones(2).type("torch.atalla.DoubleTensor").is_atalla)
        self.assertFalse(x.type("torch.FloatTensor").is_atalla)
        self.assertTrue(x.type(torch.float16).is_atalla)

    def test_default_tensor_type_is_refused(self):
        """torch deprecates it and knows its own types only; torch.set_default_device is the way."""
        with self.assertRaisesRegex(TypeError, "invalid type object|only floating-point types"):
            torch.set_default_tensor_type(torch.atalla.FloatTensor)
        self.assertEqual(torch.empty(1).device.type, "cpu")

    def test_names_of_the_device_type(self):
        self.assertEqual(torch._C._get_privateuse1_backend_name(), "atalla")
        self.assertEqual(str(torch.device("atalla:1")), "atalla:1")
        self.assertEqual(torch.profiler.ProfilerActivity.ATALLA, torch.profiler.ProfilerActivity.PrivateUse1)
        self.assertTrue(torch.utils.backend_registration._privateuse1_backend_name == "atalla")


@unittest.skipIf(torch.accelerator.device_count() < 2, "needs two devices")
class TestTwoDevices(TestCase):
    def test_current_device_is_each_threads_own(self):
        found, ready = {}, threading.Barrier(2)

        def work(name, index):
            first = torch.accelerator.current_device_index()
            torch.accelerator.set_device_index(index)
            ready.wait()  # both have chosen
            found[name] = (first, torch.accelerator.current_device_index(), torch.ones(2, device="atalla").device.index)

        with torch.accelerator.device_index(1):
            threads = [threading.Thread(target=work, args=(n, i)) for n, i in (("a", 0), ("b", 1))]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(torch.accelerator.current_device_index(), 1)
        self.assertEqual(found, {"a": (0, 0, 0), "b": (0, 1, 1)})

    def test_current_stream_is_each_threads_own(self):
        mine = torch.Stream()
        found = []
        with mine:
            thread = threading.Thread(target=lambda: found.append(torch.accelerator.current_stream()))
            thread.start()
            thread.join()
            self.assertEqual(torch.accelerator.current_stream(), mine)
        self.assertEqual(found[0].stream_id, 0)

    def test_autograd_across_devices(self):
        torch.manual_seed(0)
        first, second = torch.nn.Linear(8, 8), torch.nn.Linear(8, 4)
        x = torch.randn(5, 8)
        expected = second(first(x).relu()).square().sum()
        expected.backward()
        gradients = [p.grad.clone() for p in (*first.parameters(), *second.parameters())]
        first.zero_grad()
        second.zero_grad()
        first.to("atalla:0")
        second.to("atalla:1")
        loss = second(first(x.to("atalla:0")).relu().to("atalla:1")).square().sum()
        loss.backward()
        self.assertEqual(loss.cpu(), expected.detach(), atol=1e-5, rtol=1e-5)
        for p, g in zip((*first.parameters(), *second.parameters()), gradients):
            self.assertEqual(p.grad.cpu(), g, atol=1e-5, rtol=1e-5)
        self.assertEqual({p.grad.device.index for p in second.parameters()}, {1})

    def test_copies_between_devices_on_streams(self):
        source, target = torch.Stream(device=0), torch.Stream(device=1)
        with source:
            x = torch.arange(100_000.0, device="atalla:0") * 2
        target.wait_stream(source)
        with target:
            y = x.to("atalla:1", non_blocking=True)
            z = y.t().clone() if y.dim() > 1 else y.flip(0)
        target.synchronize()
        self.assertEqual(z.cpu(), (torch.arange(100_000.0) * 2).flip(0))
        back = torch.empty_like(x)
        back.copy_(y, non_blocking=True)
        torch.accelerator.synchronize()
        self.assertEqual(back, x)

    def test_synchronize_waits_for_the_device_named(self):
        x = torch.ones(512, 512, device="atalla:1")
        with torch.accelerator.device_index(0):
            with torch.Stream(device=1) as stream:
                for _ in range(4):
                    x = x @ x * 1e-3
            torch.accelerator.synchronize(1)
            self.assertTrue(stream.query())
            self.assertEqual(torch.accelerator.current_device_index(), 0)


class TestModules(TestCase):
    """Device-generic training as a library writes it."""

    def test_training_step(self, device):
        module = torch.get_device_module(device)
        torch.manual_seed(1)
        model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        x = torch.randn(32, 4, device=device)
        y = x.sum(1, keepdim=True)
        losses = []
        for _ in range(30):
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        module.synchronize()
        values = torch.stack(losses).tolist()
        self.assertLess(values[-1], values[0] / 10)

    def test_random_state_context(self, device):
        with torch.random.fork_rng(devices=[0], device_type=torch.device(device).type):
            torch.manual_seed(7)
            a = torch.rand(5, device=device)
        torch.manual_seed(7)
        self.assertEqual(torch.rand(5, device=device), a)


instantiate_device_type_tests(TestModules, globals(), only_for=("atalla",))
INSTANTIATED = [n for n, c in list(globals().items()) if n.startswith("TestModules") and n != "TestModules"]


class TestSuite(TestCase):
    def test_tests_were_instantiated(self):
        count = sum(name.startswith("test") for cls in INSTANTIATED for name in dir(globals()[cls]))
        self.assertGreaterEqual(count, 2)
