# SPDX-License-Identifier: BSD-3-Clause
"""How Dynamo traces torch.atalla: one test for each name of the table of torch_atalla/integration/dynamo/tracing.py."""

from __future__ import annotations

import torch
import torch._dynamo.convert_frame
from torch.testing._internal.common_utils import TestCase, instantiate_parametrized_tests, parametrize, run_tests
from torch.utils._pytree import tree_leaves

from tools.conformance import dynamo_names
from torch_atalla.integration.dynamo import tracing

D = "atalla"
ARGUMENTS = {"can_device_access_peer": (0, 1), "_exchange_device": (-1,), "_maybe_exchange_device": (-1,)}
STREAMS = [torch.atalla.Stream(device=i) for i in range(2)]


def names(*kinds):
    return sorted(name for name, kind in tracing.NAMES.items() if kind in kinds)


class NamesCase(TestCase):
    def setUp(self):
        super().setUp()
        torch._dynamo.reset()
        self.x = torch.arange(4.0, device=D)

    def check(self, function, *args):
        """Compile in one graph, and compare with eager mode. Return the compiled function's result."""
        args = args or (self.x,)
        found, expected = torch.compile(function, fullgraph=True)(*args), function(*args)
        for a, b in zip(tree_leaves(found), tree_leaves(expected), strict=True):
            self.assertEqual(type(a), type(b))
            self.assertEqual(a, b)
            if isinstance(b, torch.Tensor):
                self.assertEqual(a.device, b.device)
        self.assertEqual(torch.atalla.current_device(), 0)
        return found


@instantiate_parametrized_tests
class TestFunctions(NamesCase):
    @parametrize("name", names(tracing.CONSTANT, tracing.GUARDED))
    def test_constants(self, name):
        function, args = getattr(torch.atalla, name), ARGUMENTS.get(name, ())
        self.check(lambda x: (x + 1, function(*args)))

    @parametrize("name", names(tracing.NUMBER))
    def test_numbers(self, name):
        function = getattr(torch.atalla, name)
        compiled = torch.compile(lambda x: (function(), x + 1), fullgraph=True)
        torch.atalla.empty_cache()
        first, _ = compiled(self.x)
        self.assertIs(type(first), int)
        self.assertGreater(first, 0)
        held = torch.zeros(1 << 24, device=D)
        second, result = compiled(self.x)
        if not name.startswith("max"):
            self.assertGreater(second, first)  # read anew, without another compilation
        self.assertEqual(result, self.x + 1)
        del held
        self.check(lambda x: x + (function() > 0))
        self.assertGreater(torch.compile(lambda x: (function(x.device), x), fullgraph=True)(self.x)[0], 0)

    @parametrize("name", names(tracing.BREAK))
    def test_breaks(self, name):
        function = tracing.FUNCTIONS[name]
        with self.assertRaisesRegex(torch._dynamo.exc.Unsupported, "marked as skipped"):
            torch.compile(lambda x: (function(), x + 1), fullgraph=True)(self.x)

    def test_breaks_keep_the_order(self):
        def function(x):
            torch.atalla.manual_seed(3)
            y = torch.rand_like(x)
            torch.atalla.empty_cache()
            return y + torch.atalla.memory_stats()["num_ooms"]

        self.assertEqual(torch.compile(function)(self.x), function(self.x))

    def test_guards(self):
        compiled = torch.compile(lambda x: (x + 1, torch.atalla.current_device()), fullgraph=True)
        for index in (0, 1, 0, 1):
            with torch.atalla.device(index):
                self.assertEqual(compiled(self.x)[1], index)

    def test_properties(self):
        def function(x):
            properties = torch.atalla.get_device_properties(x.device)
            return x * properties.multi_processor_count, properties.total_memory, properties.name

        self.check(function)

    def test_synchronize(self):
        def function(x):
            y = x + 1
            torch.atalla.synchronize()
            torch.atalla.synchronize(x.device)
            torch.atalla.synchronize(device=1)
            return y

        self.check(function)

    def test_rows(self):
        self.assertGreater(len(dynamo_names.rows()), 100)


class TestDevices(NamesCase):
    def test_device(self):
        def function(x):
            with torch.atalla.device(1):
                y = torch.ones(2, device=D) + 1
                inside = torch.atalla.current_device(), torch.atalla.current_stream(), torch.atalla.default_stream()
            return y, x + 1, inside, torch.atalla.current_device()

        self.check(function)

    def test_device_of(self):
        def function(x):
            with torch.atalla.device_of(x):
                return torch.ones(2, device=D) + 1, x + 1

        for index in (0, 1):
            torch._dynamo.reset()
            self.check(function, torch.ones(3, device=f"atalla:{index}"))

    def test_exchange(self):
        def function(x):
            before = torch.atalla._exchange_device(1)
            y = torch.ones(2, device=D)
            return y, before, torch.atalla._maybe_exchange_device(before), x + 1

        self.check(function)

    def test_device_without_ordinal(self):
        for make in (
            lambda x: torch.ones(2, device=D) + 1,
            lambda x: torch.arange(3, device=torch.device(D)) * 2,
            lambda x: x.cpu().to(D) + 1,
            lambda x: x.cpu().atalla() + 1,
            lambda x: torch.tensor([1.0, 2.0], device=D) + 1,
        ):
            for mode in ("default", "reduce-overhead"):
                torch._dynamo.reset()
                compiled = torch.compile(make, mode=mode)
                for index in (0, 1, 0, 1, 1):
                    with torch.atalla.device(index):
                        found, expected = compiled(self.x), make(self.x)
                    self.assertEqual(found.device, expected.device)
                    self.assertEqual(found, expected)

    def test_default_device(self):
        compiled = torch.compile(lambda: torch.ones(2) + 1, fullgraph=True)
        for device in ("cpu", "atalla:0", "atalla:1", "atalla"):
            with torch.device(device):
                self.assertEqual(compiled().device, torch.ones(2).device)


class TestStreams(NamesCase):
    def test_contexts(self):
        stream = STREAMS[0]

        def function(x):
            with torch.atalla.stream(stream):
                y = x + 1
                inside = torch.atalla.current_stream()
            with stream:
                z = y * 2
            with torch.atalla.stream(None):
                z = z + 1
            torch.atalla.current_stream().wait_stream(stream)
            return z, inside == stream, torch.atalla.current_stream() == torch.atalla.default_stream()

        self.check(function)
        self.assertEqual(torch.atalla.current_stream(), torch.atalla.default_stream())

    def test_streams_of_another_device(self):
        def function(x):
            return x + 1, torch.atalla.current_stream(1), torch.atalla.default_stream(1), torch.atalla.current_stream(0)

        self.check(function)
        with STREAMS[1]:
            self.assertEqual(torch.compile(function, fullgraph=True)(self.x)[1], STREAMS[1])

    def test_new_stream(self):
        def function(x):
            stream = torch.atalla.Stream(priority=-1)
            with torch.atalla.stream(stream):
                y = x + 1
            stream.synchronize()
            return y

        self.check(function)

    def test_attributes(self):
        def function(x):
            stream = torch.atalla.current_stream()
            return x + 1, stream.stream_id, stream.device, stream.atalla_stream

        self.check(function)

    def test_methods_of_streams(self):
        first, second = STREAMS[0], torch.atalla.Stream(device=0)

        def function(x):
            with torch.atalla.stream(first):
                y = x + 1
            event = first.record_event()
            second.wait_event(event)
            second.wait_stream(first)
            with torch.atalla.stream(second):
                y = y * 2
            second.synchronize()
            return y, second.query()

        self.check(function)

    def test_methods_of_events(self):
        def function(x):
            before, after = torch.atalla.Event(enable_timing=True), torch.atalla.Event(enable_timing=True)
            before.record()
            y = x + 1
            after.record(torch.atalla.current_stream())
            after.wait()
            after.synchronize()
            return y, after.query()

        self.check(function)

    def test_events_of_the_caller(self):
        event = torch.atalla.Event()

        def function(x):
            y = x + 1
            event.record()
            event.wait(torch.atalla.current_stream())
            return y

        self.check(function)
        event.synchronize()
        self.assertTrue(event.query())

    def test_streams_are_not_replayed(self):
        stream = STREAMS[0]

        def function(x):
            with torch.atalla.stream(stream):
                y = x + 1
            torch.atalla.current_stream().wait_stream(stream)
            return y

        compiled = torch.compile(function, mode="reduce-overhead", fullgraph=True)
        for k in range(4):
            self.assertEqual(compiled(self.x + k), self.x + k + 1)

    def test_autocast(self):
        def function(x):
            with torch.autocast(D, torch.bfloat16), torch.atalla.amp.autocast(dtype=torch.bfloat16):
                return x.view(2, 2) @ x.view(2, 2)

        self.check(function)


if __name__ == "__main__":
    run_tests()
