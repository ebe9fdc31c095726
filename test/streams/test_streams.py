# SPDX-License-Identifier: BSD-3-Clause
"""Streams: order, waiting, threads, copies, faults, the fallback's place, and the end of the process."""

import os
import subprocess
import sys
import threading
import unittest

import models
import torch
from stream_gate import Gate
from torch.testing._internal.common_device_type import instantiate_device_type_tests
from torch.testing._internal.common_utils import TestCase

import torch_atalla
from torch_atalla.device.streams import host_call


def child(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300, env=os.environ | environment
    )


def other_device(device):
    return torch.device("atalla", 1 - (torch.device(device).index or 0))


class TestStreams(TestCase):
    def tearDown(self):
        for i in range(torch.atalla.device_count()):
            torch.atalla.synchronize(i)
        super().tearDown()

    # ------------------------------------------------------------------------------------------------ which stream
    def test_default_stream(self, device):
        default = torch.atalla.default_stream(device)
        self.assertEqual(default.stream_id, 0)
        self.assertEqual(torch.accelerator.current_stream(device), default)
        self.assertEqual(default.device, torch.device("atalla", 0))

    def test_new_streams_differ(self, device):
        streams = [torch.Stream(device) for _ in range(8)]
        self.assertEqual(len({s.stream_id for s in streams}), 8)
        self.assertNotIn(0, {s.stream_id for s in streams})
        self.assertTrue(all(s.query() for s in streams))

    def test_priority(self, device):
        urgent, normal = torch.Stream(device, priority=-1), torch.Stream(device)
        for stream, priority in ((urgent, -1), (normal, 0), (torch.Stream(device, priority=-7), -1)):
            self.assertEqual(torch_atalla._C.stream_priority(0, stream.stream_id), priority)
            with stream:
                self.assertEqual(torch.ones(3, device=device).sum().item(), 3)

    def test_context(self, device):
        default, side = torch.accelerator.current_stream(device), torch.Stream(device)
        with side:
            self.assertEqual(torch.accelerator.current_stream(device), side)
            with torch.atalla.stream(default):
                self.assertEqual(torch.accelerator.current_stream(device), default)
            self.assertEqual(torch.accelerator.current_stream(device), side)
        self.assertEqual(torch.accelerator.current_stream(device), default)

    def test_current_stream_is_of_the_thread_and_device(self, device):
        seen, side = {}, torch.Stream(device)
        with side:
            other = threading.Thread(target=lambda: seen.update(id=torch.accelerator.current_stream(device).stream_id))
            other.start()
            other.join()
            self.assertEqual(torch.accelerator.current_stream(other_device(device)).stream_id, 0)
        self.assertEqual(seen, {"id": 0})

    # ------------------------------------------------------------------------------------------------ order
    def test_query_is_false_while_work_is_queued(self, device):
        stream = torch.Stream(device)
        self.assertTrue(stream.query())
        with Gate(stream) as gate:
            self.assertFalse(stream.query())
            gate.wait_entered()
            self.assertFalse(stream.query())
        stream.synchronize()
        self.assertTrue(stream.query())

    def test_in_order(self, device):
        stream = torch.Stream(device)
        x = torch.zeros(100, device=device)
        with stream, Gate(stream):
            for _ in range(50):  # fewer launches than a queue holds: nothing may wait for room behind the gate
                x.add_(1)
                x.mul_(2)
                x.sub_(x / 2)
            y = x.clone()
            x.zero_()
        with stream:
            self.assertEqual(y.cpu(), torch.full((100,), 50.0))
            self.assertEqual(x.sum().item(), 0)

    def test_streams_do_not_wait_for_each_other(self, device):
        stream = torch.Stream(device)
        x = torch.ones(10, device=device)
        with Gate(stream):
            with stream:
                y = x + 1
            self.assertEqual((x * 3).sum().item(), 30)  # on the default stream
            self.assertFalse(stream.query())
        stream.synchronize()
        self.assertEqual(y.sum().item(), 20)

    def test_wait_stream(self, device):
        first, second = torch.Stream(device), torch.Stream(device)
        x = torch.zeros(1000, device=device)
        with Gate(first):
            with first:
                x.fill_(7)
            second.wait_stream(first)
            with second:
                y = x + 1
            self.assertFalse(second.query())
        second.synchronize()
        self.assertEqual(y.cpu(), torch.full((1000,), 8.0))

    def test_wait_event(self, device):
        first, second = torch.Stream(device), torch.Stream(device)
        x = torch.zeros(10, device=device)
        with Gate(first) as gate:
            with first:
                x.fill_(1)
            event = first.record_event()
            second.wait_event(event)
            with second:
                y = x * 5
            later = Gate(first)  # what comes after the event does not concern the waiter
            with first:
                x.fill_(9)
            gate.open()
            second.synchronize()
            self.assertFalse(first.query())
            self.assertEqual(y.sum().item(), 50)
            later.open()
        first.synchronize()
        self.assertEqual(x.sum().item(), 90)

    def test_wait_across_devices(self, device):
        far = other_device(device)
        first, second = torch.Stream(device), torch.Stream(far)
        x = torch.zeros(10, device=device)
        with Gate(first):
            with first:
                x.fill_(4)
            second.wait_stream(first)
            with second, torch.atalla.device(far):
                y = torch.ones(10, device=far) * 2
            self.assertFalse(second.query())
        second.synchronize()
        self.assertEqual(y.sum().item(), 20)

    def test_synchronize_the_named_device(self, device):
        far = other_device(device)
        stream = torch.Stream(device)
        with Gate(stream):
            torch.atalla.synchronize(far)
            torch.accelerator.synchronize(far.index)
            self.assertFalse(stream.query())
        torch.atalla.synchronize(device)
        self.assertTrue(stream.query())

    def test_item_waits_for_its_stream(self, device):
        stream = torch.Stream(device)
        with stream, Gate(stream) as gate:
            x = torch.full((5,), 3, device=device)
            threading.Thread(target=gate.open).start()
            self.assertEqual(x.sum().item(), 15)
            self.assertEqual(x.nonzero().tolist(), [[0], [1], [2], [3], [4]])

    # ------------------------------------------------------------------------------------------------ memory
    def test_record_stream(self, device):
        side = torch.Stream(device)
        for lazy in (lambda x: x, torch.conj, lambda x: x.conj().imag):
            x = torch.ones(1000, dtype=torch.complex64, device=device)
            address = x.data_ptr()
            with Gate(side):
                side.wait_stream(torch.accelerator.current_stream(device))
                with side:
                    y = x + 1
                lazy(x).record_stream(side)
                del x
                z = torch.zeros(1000, dtype=torch.complex64, device=device)
                self.assertNotEqual(z.data_ptr(), address)
            side.synchronize()
            self.assertEqual(y.sum().item(), 2000)
            again = [torch.zeros(1000, dtype=torch.complex64, device=device) for _ in range(2)]
            self.assertIn(address, [t.data_ptr() for t in again])

    def test_freed_memory_is_reused_in_stream_order(self, device):
        stream = torch.Stream(device)
        with stream, Gate(stream):
            x = torch.full((1000,), 2.0, device=device)
            y = x + 1
            address = x.data_ptr()
            del x
            z = torch.full((1000,), 5.0, device=device)
            self.assertEqual(z.data_ptr(), address)
        stream.synchronize()
        self.assertEqual(y.sum().item(), 3000)
        self.assertEqual(z.sum().item(), 5000)

    # ------------------------------------------------------------------------------------------------ copies
    def test_non_blocking_from_pageable_memory(self, device):
        stream = torch.Stream(device)
        for n in (10, 100_000):
            host = torch.ones(n)
            with stream, Gate(stream) as gate:
                if n > 10:  # too large to be taken over: waits for the stream
                    threading.Thread(target=gate.open).start()
                x = host.to(device, non_blocking=True)
                host.fill_(9)
            stream.synchronize()
            self.assertEqual(x.sum().item(), n)

    def test_small_upload_does_not_wait(self, device):
        stream = torch.Stream(device)
        with stream, Gate(stream):
            x = torch.arange(10.0).to(device, non_blocking=True)
            self.assertFalse(stream.query())
        stream.synchronize()
        self.assertEqual(x.sum().item(), 45)

    def test_blocking_upload_is_complete(self, device):
        """A stream that does not wait for that of the copy reads what was copied."""
        stream = torch.Stream(device)
        for make in (lambda: torch.arange(10.0).to(device), lambda: torch.tensor(list(range(10)), device=device)):
            with stream, Gate(stream) as gate:
                threading.Timer(0.1, gate.open).start()
                x = make()
            self.assertEqual(x.sum().item(), 45)

    def test_non_blocking_to_pageable_memory(self, device):
        stream = torch.Stream(device)
        with stream, Gate(stream) as gate:
            x = torch.ones(10, device=device)
            threading.Thread(target=gate.open).start()
            self.assertEqual(torch.zeros(10).copy_(x, non_blocking=True).sum(), 10)

    def test_pinned_copies_do_not_wait(self, device):
        stream = torch.Stream(device)
        source, target = torch.arange(100_000.0).pin_memory(), torch.zeros(100_000).pin_memory()
        with stream, Gate(stream):
            x = source.to(device, non_blocking=True)
            x.add_(1)
            target.copy_(x, non_blocking=True)
            self.assertEqual(target.sum(), 0)
            self.assertFalse(stream.query())
        stream.synchronize()
        self.assertEqual(target, source + 1)

    def test_pinned_memory_outlives_its_tensor(self, device):
        stream = torch.Stream(device)
        source = torch.ones(50_000).pin_memory()
        address = source.data_ptr()
        with stream, Gate(stream):
            x = source.to(device, non_blocking=True)
            del source
            later = torch.full((50_000,), 3.0).pin_memory()
            self.assertNotEqual(later.data_ptr(), address)
        stream.synchronize()
        self.assertEqual(x.sum().item(), 50_000)

    def test_copy_between_devices(self, device):
        far = other_device(device)
        stream, far_stream = torch.Stream(device), torch.Stream(far)
        with stream, Gate(stream):
            x = torch.arange(1000.0, device=device)
            with far_stream, torch.atalla.device(far):
                y = x.to(far)
                z = x[::2].to(far, torch.float64)
                y.add_(1)
            self.assertFalse(far_stream.query())
        far_stream.synchronize()
        self.assertEqual(y.cpu(), torch.arange(1000.0) + 1)
        self.assertEqual(z.cpu(), torch.arange(1000.0, dtype=torch.float64)[::2])

    # ------------------------------------------------------------------------------------------------ fallback
    def test_fallback_waits_for_the_current_stream_only(self, device):
        side, stream = torch.Stream(device), torch.Stream(device)
        a = torch.tensor([[4.0, 1.0], [1.0, 3.0]], device=device)
        with torch_atalla.fallback.mode("silent"), Gate(side), stream, Gate(stream) as gate:
            b = a * 2
            threading.Thread(target=gate.open).start()
            result = models.add_relu(b, 0.0)  # on the CPU, behind its stream's gate
            self.assertEqual(result.cpu(), torch.tensor([[8.0, 2.0], [2.0, 6.0]]))
            self.assertFalse(side.query())

    # ------------------------------------------------------------------------------------------------ faults
    def test_fault_on_an_idle_stream(self, device):
        x, index = torch.arange(4.0, device=device), torch.tensor([9], device=device)
        with self.assertRaisesRegex(IndexError, "9"):
            x.index_select(0, index)
            torch.accelerator.synchronize(device)  # where work is queued also on an idle stream
        self.assertEqual(x.sum().item(), 6)

    def test_queued_fault(self, device):
        stream = torch.Stream(device)
        x, index = torch.arange(4.0, device=device), torch.tensor([9], device=device)
        y = torch.zeros(4, device=device)
        with stream, Gate(stream):
            x.index_select(0, index)
            y.fill_(1)  # dropped
        with self.assertRaisesRegex(IndexError, r"stream \d+, queued launch \d+: .*launch.*tag \d+\).*9"):
            stream.synchronize()
        stream.synchronize()
        self.assertEqual(y.sum().item(), 0)
        with stream:
            self.assertEqual((x + 1).sum().item(), 10)

    def test_fault_surfaces_at_item_and_device_synchronize(self, device):
        stream = torch.Stream(device)
        x, index = torch.arange(4.0, device=device), torch.tensor([-9], device=device)
        with stream:
            with Gate(stream):
                y = x.index_select(0, index)
            with self.assertRaises(IndexError):
                y.sum().item()
            with Gate(stream):
                x.index_select(0, index)
            with self.assertRaises(IndexError):
                torch.atalla.synchronize(device)
            self.assertEqual(x.sum().item(), 6)

    def test_fault_leaves_other_streams_alone(self, device):
        stream, other = torch.Stream(device), torch.Stream(device)
        x, index = torch.arange(4.0, device=device), torch.tensor([9], device=device)
        with stream, Gate(stream):
            x.index_select(0, index)
        with other:
            y = x + 1
        other.synchronize()
        self.assertEqual(y.cpu(), torch.arange(4.0) + 1)
        with self.assertRaises(IndexError):
            stream.synchronize()

    def test_nothing_leaks_behind_a_fault(self, device):
        stream = torch.Stream(device)
        x, index = torch.arange(4.0, device=device), torch.tensor([9], device=device)
        torch.atalla.synchronize(device)
        before = torch.atalla.memory_allocated(device)
        for _ in range(3):
            with stream, Gate(stream):
                y = [x.index_select(0, index), x + 1, x.clone()]
                y[0].record_stream(torch.accelerator.current_stream(device))
                del y
            with self.assertRaises(IndexError):
                stream.synchronize()
        self.assertEqual(torch.atalla.memory_allocated(device), before)

    # ------------------------------------------------------------------------------------------------ host calls
    def test_host_call(self, device):
        stream, seen = torch.Stream(device), []
        with stream, Gate(stream):
            host_call(stream, lambda: seen.append(threading.get_ident()))
            host_call(stream, lambda: seen.append(2))
            self.assertEqual(seen, [])
        stream.synchronize()
        self.assertEqual(seen[1], 2)
        self.assertNotEqual(seen[0], threading.get_ident())
        with self.assertRaisesRegex(ValueError, "cpu"):
            host_call(_CpuStream(), print)

    def test_host_call_that_raises(self, device):
        stream = torch.Stream(device)
        with self.assertRaisesRegex(RuntimeError, "ZeroDivisionError"):
            host_call(stream, lambda: 1 // 0)
            stream.synchronize()
        stream.synchronize()

    # ------------------------------------------------------------------------------------------------ threads
    def test_threads_with_streams_of_their_own(self, device):
        results = {}

        def work(k):
            stream = torch.Stream(device)
            with stream:
                x = torch.zeros(64, 64, device=device)
                for i in range(50):
                    x = x + k
                    if i % 10 == 0:
                        x = x @ torch.eye(64, device=device)
                results[k] = x.sum().item()

        threads = [threading.Thread(target=work, args=(k,)) for k in range(1, 7)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(results, {k: 50 * k * 64 * 64.0 for k in range(1, 7)})

    def test_backward_on_a_side_stream(self, device):
        stream = torch.Stream(device)
        weight = torch.ones(16, 16, device=device, requires_grad=True)
        stream.wait_stream(torch.accelerator.current_stream(device))
        with stream:
            for _ in range(3):
                (torch.full((4, 16), 2.0, device=device) @ weight).relu().sum().backward()
        torch.accelerator.current_stream(device).wait_stream(stream)
        self.assertEqual(weight.grad.cpu(), torch.full((16, 16), 24.0))


class _CpuStream:
    device = torch.device("cpu")


class TestLaunchModes(TestCase):
    CODE = """
import torch
s = torch.Stream("atalla")
x = torch.ones(1000, 1000, device="atalla")
s.wait_stream(torch.accelerator.current_stream())
with s:
    y = (x @ x).relu() + torch.arange(1000., device="atalla")
    start = s.record_event(torch.Event("atalla", enable_timing=True))
    z = y[:5].sum(1)
    end = s.record_event(torch.Event("atalla", enable_timing=True))
end.synchronize()
print(z.tolist()[0], start.elapsed_time(end) > 0)
"""

    def test_modes_agree(self):
        for mode in ("auto", "inline", "queued"):
            result = child(self.CODE, ATALLA_LAUNCH=mode)
            self.assertEqual(result.stdout.split(), ["1499500.0", "True"], f"{mode}: {result.stderr}")

    def test_unknown_mode(self):
        result = child("import torch; torch.ones(1, device='atalla')", ATALLA_LAUNCH="sometimes")
        self.assertIn("expected 'auto', 'inline' or 'queued'", result.stderr)


class TestEndOfProcess(TestCase):
    def test_exit_with_work_queued(self):
        """Queued work is dropped, and the host call that runs is waited for."""
        code = """
import threading, torch
from torch_atalla.device.streams import host_call
s, entered = torch.Stream("atalla"), threading.Event()
def run():
    entered.set()
    print("called", flush=True)
host_call(s, run)
with s:
    x = torch.ones(1000, 1000, device="atalla")
    for _ in range(200):
        x = x @ x
entered.wait()
"""
        result = child(code)
        self.assertEqual((result.returncode, result.stdout.strip()), (0, "called"), result.stderr)

    def test_exit_after_backward(self):
        """Many ends of an interpreter right after backward(): autograd's device threads must have let go by then."""
        code = """
import os, sys, torch
def script(k):
    w = torch.ones(8, 8, device="atalla", requires_grad=True)
    w.register_hook(lambda grad: grad * 2)   # Python objects in the graph
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.keep = [object() for _ in range(1000)]
            return x * 2
        @staticmethod
        def backward(ctx, grad):
            return grad * 2
    for _ in range(k % 3 + 1):
        Twice.apply(w).sum().backward()
children = []
for k in range(12):   # no device is open here, so these are as good as fresh processes
    pid = os.fork()
    if pid == 0:
        script(k)
        sys.exit(0)
    children.append(pid)
    if len(children) == 4:
        print([os.waitpid(pid, 0)[1] for pid in children], flush=True)  # or each child would print it, too
        children = []
"""
        result = child(code)
        self.assertEqual(result.stdout.split("\n")[:-1], ["[0, 0, 0, 0]"] * 3, result.stderr)
        self.assertEqual(result.stderr, "")


class TestCollected(unittest.TestCase):
    def test_minimum(self):
        names = [n for c in globals().values() if isinstance(c, type) for n in dir(c) if n.endswith("_atalla")]
        self.assertGreaterEqual(len(names), 30)


instantiate_device_type_tests(TestStreams, globals(), only_for=("atalla",))
