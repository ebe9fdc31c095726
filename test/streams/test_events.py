# SPDX-License-Identifier: BSD-3-Clause
"""Events: recording, waiting, and simulated time."""

import threading
import unittest

import torch
from stream_gate import Gate
from torch.testing._internal.common_device_type import instantiate_device_type_tests
from torch.testing._internal.common_utils import TestCase, parametrize

import torch_atalla


def timing_event(device):
    return torch.Event(device, enable_timing=True)


class TestEvents(TestCase):
    def tearDown(self):
        for i in range(torch.atalla.device_count()):
            torch.atalla.synchronize(i)
        super().tearDown()

    def test_not_recorded(self, device):
        event = torch.Event(device)
        self.assertTrue(event.query())
        event.synchronize()
        event.wait()
        torch.Stream(device).wait_event(event)
        self.assertEqual(event.device.type, "atalla")

    def test_query(self, device):
        stream = torch.Stream(device)
        event = torch.Event(device)
        with Gate(stream) as gate:
            event.record(stream)
            self.assertFalse(event.query())
            gate.wait_entered()
            self.assertFalse(event.query())
        event.synchronize()
        self.assertTrue(event.query())
        stream.synchronize()  # the stream's worker may still be putting the record away
        self.assertTrue(stream.query())

    def test_record_on_the_current_stream(self, device):
        stream = torch.Stream(device)
        event = torch.Event(device)
        with stream, Gate(stream):
            event.record()
            self.assertFalse(event.query())
        event.synchronize()

    def test_event_is_not_the_end_of_the_stream(self, device):
        stream = torch.Stream(device)
        with Gate(stream) as first:
            event = stream.record_event()
            with Gate(stream):
                first.open()
                event.synchronize()
                self.assertTrue(event.query())
                self.assertFalse(stream.query())

    def test_recorded_again(self, device):
        """Who waits for the first record goes on when it is reached, whatever happened to the event since."""
        stream, waiter = torch.Stream(device), torch.Stream(device)
        event = torch.Event(device)
        x = torch.zeros(10, device=device)
        with Gate(stream) as first:
            with stream:
                x.fill_(1)
            event.record(stream)
            waiter.wait_event(event)
            with waiter:
                y = x + 1
            with Gate(stream):
                event.record(stream)
                self.assertFalse(waiter.query())  # neither reached: the waiter is not let go by the second record
                first.open()
                waiter.synchronize()
                self.assertEqual(y.sum().item(), 20)
                self.assertFalse(event.query())  # which means the second
        event.synchronize()

    def test_recorded_again_does_not_let_waiters_go(self, device):
        """An event that is recorded again on an idle stream is reached at once; its earlier waiter still waits."""
        busy, idle, waiter = (torch.Stream(device) for _ in range(3))
        event = torch.Event(device)
        x = torch.zeros(10, device=device)
        with Gate(busy):
            with busy:
                x.fill_(3)
            event.record(busy)
            waiter.wait_event(event)
            with waiter:
                y = x * 2
            event.record(idle)
            event.synchronize()
            self.assertTrue(event.query())
            self.assertFalse(waiter.query())
        waiter.synchronize()
        self.assertEqual(y.sum().item(), 60)

    def test_destroyed_while_queued(self, device):
        stream, waiter = torch.Stream(device), torch.Stream(device)
        with Gate(stream):
            event = stream.record_event()
            waiter.wait_event(event)
            del event
            self.assertFalse(waiter.query())
        waiter.synchronize()

    def test_synchronize_from_another_thread(self, device):
        stream, reached = torch.Stream(device), []
        with Gate(stream):
            event = stream.record_event()
            thread = threading.Thread(target=lambda: (event.synchronize(), reached.append(stream.query())))
            thread.start()
            self.assertEqual(reached, [])
        thread.join()
        self.assertEqual(len(reached), 1)

    def test_wait_on_another_device(self, device):
        far = torch.Stream("atalla:1")
        near = torch.Stream("atalla:0")
        with Gate(far):
            event = far.record_event()
            near.wait_event(event)
            self.assertFalse(near.query())
        near.synchronize()
        self.assertTrue(event.query())

    def test_device_of_the_record(self, device):
        event = torch.Event("atalla")
        event.record(torch.Stream("atalla:1"))
        self.assertEqual(event.device, torch.device("atalla:1"))
        with self.assertRaisesRegex(RuntimeError, "does not match recording stream's device index"):
            event.record(torch.Stream("atalla:0"))

    @parametrize("blocking", (False, True))
    def test_blocking(self, device, blocking):
        event = torch.atalla.Event(enable_timing=True, blocking=blocking)
        event.record()
        event.synchronize()
        self.assertTrue(event.query())

    def test_interprocess(self, device):
        with self.assertRaises(NotImplementedError):
            torch.atalla.Event(interprocess=True)

    # ------------------------------------------------------------------------------------------------ time
    def timed(self, device, work):
        stream = torch.accelerator.current_stream(device)
        begin, end = timing_event(device), timing_event(device)
        begin.record(stream)
        work()
        end.record(stream)
        end.synchronize()
        return begin.elapsed_time(end), end.elapsed_time(begin)

    def test_elapsed_time(self, device):
        x = torch.ones(300, 300, device=device)
        torch.atalla.synchronize(device)
        counted = torch_atalla._C.counters(0)["cycles"]
        ms, back = self.timed(device, lambda: x @ x)
        cycles = torch_atalla._C.counters(0)["cycles"] - counted
        clock = torch.atalla.get_device_properties(device).clock_hz
        self.assertEqual(ms, cycles / clock * 1e3, rtol=0, atol=1e-9)
        self.assertEqual(back, -ms)
        self.assertGreater(ms, 0)
        self.assertEqual(self.timed(device, lambda: None)[0], 0)

    def test_elapsed_time_is_simulated(self, device):
        """The same work takes the same time, whether it is run here or queued, and however long it waited."""
        x = torch.ones(100, 100, device=device)

        def work():
            (x @ x).relu_().sum()

        first = self.timed(device, work)[0]
        stream = torch.Stream(device)
        begin, end = timing_event(device), timing_event(device)
        with stream, Gate(stream) as gate:
            begin.record()
            work()
            end.record()
            gate.wait_entered()
        end.synchronize()
        self.assertEqual(begin.elapsed_time(end), first)

    def test_elapsed_time_of_a_running_event(self, device):
        stream = torch.Stream(device)
        begin, end = timing_event(device), timing_event(device)
        with Gate(stream):
            begin.record(stream)
            end.record(stream)
            with self.assertRaisesRegex(RuntimeError, "Both events must be completed before calculating elapsed time"):
                begin.elapsed_time(end)
        end.synchronize()
        self.assertEqual(begin.elapsed_time(end), 0)

    def test_elapsed_time_errors(self, device):
        begin, end = timing_event(device), timing_event(device)
        with self.assertRaisesRegex(ValueError, "Both events must be recorded before calculating elapsed time"):
            begin.elapsed_time(end)
        without = torch.Event(device)  # timing is off by default, as in torch.cuda
        for event in (begin, end, without):
            event.record()
        for pair in ((begin, without), (without, end)):
            with self.assertRaisesRegex(ValueError, "must be created with argument 'enable_timing=True'"):
                pair[0].elapsed_time(pair[1])
        far = timing_event(device)
        far.record(torch.Stream("atalla:1"))
        begin.synchronize()
        far.synchronize()
        with self.assertRaisesRegex(RuntimeError, "two devices"):
            begin.elapsed_time(far)

    def test_many_events(self, device):
        stream = torch.Stream(device)
        with Gate(stream):
            events = [stream.record_event() for _ in range(1000)]
            self.assertFalse(any(event.query() for event in events))
        events[-1].synchronize()
        self.assertTrue(all(event.query() for event in events))


class TestCollected(unittest.TestCase):
    def test_minimum(self):
        names = [n for c in globals().values() if isinstance(c, type) for n in dir(c) if "_atalla" in n]
        self.assertGreaterEqual(len(names), 18)


instantiate_device_type_tests(TestEvents, globals(), only_for=("atalla",))
