# SPDX-License-Identifier: BSD-3-Clause
"""Graphs: torch.accelerator.Graph and torch.atalla.graph. A replay computes the results of
eager mode, and a capture refuses calls that it cannot hold."""

from __future__ import annotations

import os
import tempfile
import threading

import models
import torch
from graph_support import captured
from torch.testing._internal.common_device_type import instantiate_device_type_tests
from torch.testing._internal.common_utils import TestCase, parametrize

import torch_atalla
from torch_atalla import telemetry

REFUSED = "operation not permitted when stream is capturing"
INVALID = "operation failed due to a previous error during capture"
OTHER: dict[str, torch.atalla.Graph] = {}


def launches() -> int:
    torch.atalla.synchronize()
    return telemetry.counters().launches


class TestAcceleratorGraph(TestCase):
    def test_capture_and_replay(self, device):
        x = torch.zeros(2000, device=device)
        stream, graph = torch.Stream(device=device), torch.accelerator.Graph()
        before = launches()
        with stream, graph:
            self.assertTrue(torch.atalla.is_current_stream_capturing())
            x += 1
        self.assertFalse(torch.atalla.is_current_stream_capturing())
        self.assertEqual(launches(), before)
        self.assertEqual(x, torch.zeros(2000))  # recorded, not executed
        for i in range(1, 4):
            graph.replay()
            self.assertEqual(x, torch.full((2000,), float(i)))

    def test_explicit_calls(self, device):
        x = torch.arange(10.0, device=device)
        graph = torch.accelerator.Graph(keep_graph=True)
        with torch.Stream(device=device):
            graph.capture_begin()
            y = x * 2
            graph.capture_end()
        graph.instantiate()
        graph.replay()
        self.assertEqual(y, torch.arange(10.0) * 2)
        x.fill_(3)
        graph.replay()
        self.assertEqual(y, torch.full((10,), 6.0))

    def test_life(self, device):
        graph = torch.accelerator.Graph()
        for call in (graph.replay, graph.instantiate):
            with self.assertRaisesRegex(RuntimeError, "without a preceding successful capture"):
                call()
        with self.assertRaisesRegex(RuntimeError, "not capturing"):
            graph.capture_end()
        with self.assertRaisesRegex(RuntimeError, "without a preceding capture"):
            graph.pool()
        x = torch.ones(4, device=device)
        with torch.Stream(device=device), graph:
            x += 1
        graph.replay()
        with self.assertRaisesRegex(RuntimeError, "already owns a captured graph"):
            with torch.Stream(device=device):
                graph.capture_begin()
        graph.reset()
        with self.assertRaisesRegex(RuntimeError, "without a preceding successful capture"):
            graph.replay()
        with torch.Stream(device=device), graph:  # may be used anew
            x *= 5
        graph.replay()
        self.assertEqual(x, torch.full((4,), 10.0))

    def test_default_stream(self, device):
        graph = torch.accelerator.Graph()
        with self.assertRaisesRegex(RuntimeError, "must be captured on a non-default stream"):
            graph.capture_begin()
        self.assertFalse(torch.atalla.is_current_stream_capturing())

    def test_empty(self, device):
        graph = torch.accelerator.Graph()
        with self.assertWarnsRegex(UserWarning, "The graph is empty"):
            with torch.Stream(device=device), graph:
                pass
        graph.replay()

    @parametrize("mode", ["default", "global", "thread_local", "relaxed"])
    def test_modes(self, device, mode):
        x = torch.ones(3, device=device)
        graph = torch.accelerator.Graph(capture_error_mode=mode)
        with torch.Stream(device=device), graph:
            x += 1
        graph.replay()
        self.assertEqual(x, torch.full((3,), 2.0))
        other, y = captured(lambda: x * 2, capture_error_mode=mode)
        other.replay()
        self.assertEqual(y, torch.full((3,), 4.0))

    def test_debug_dump(self, device):
        x = torch.ones(3, 4, device=device)
        graph = torch.accelerator.Graph()
        with torch.Stream(device=device), graph:
            y = torch.rand_like(x) + x
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "graph.dot")
            with self.assertRaisesRegex(RuntimeError, "enable_debug_mode"):
                graph.debug_dump(path)
            graph.enable_debug_mode()
            graph.debug_dump(path)
            with open(path) as file:
                text = file.read()
            with self.assertRaisesRegex(RuntimeError, "cannot write"):
                graph.debug_dump(os.path.join(folder, "missing", "graph.dot"))
        for part in (
            "digraph",
            "random.uniform",
            "pointwise.add",
            "float32[3, 4]",
            " cycles, ",
            " J\\nstream",
            "n0 -> n1",
        ):
            self.assertIn(part, text)
        del y

    def test_other_device(self, device):
        with torch.atalla.device(1):
            x = torch.ones(5, device="atalla:1")
            graph, y = captured(lambda: x + 1)
        graph.replay()  # on its own device, whatever the current one is
        self.assertEqual(y.device, torch.device("atalla:1"))
        self.assertEqual(y, torch.full((5,), 2.0))

    def test_nothing_recorded(self, device):
        for index in (0, 1):
            x = torch.ones(3, device=f"atalla:{index}")
            graph = torch.atalla.Graph()
            with self.assertRaisesRegex(RuntimeError, f"recorded nothing, and .* ran on stream 0 of device {index}"):
                with torch.atalla.device(1 - index), torch.atalla.graph(graph):
                    x.add_(1)
            self.assertEqual(x.cpu(), torch.full((3,), 2.0))  # it ran
            with torch.atalla.device(index), torch.atalla.graph(graph):  # the graph can be used
                x.add_(1)
            graph.replay()
            self.assertEqual(x.cpu(), torch.full((3,), 3.0))
            with torch.atalla.graph(other := torch.atalla.Graph(), stream=torch.Stream(device=f"atalla:{index}")):
                x.add_(1)
            other.replay()
            self.assertEqual(x.cpu(), torch.full((3,), 4.0))


class TestReplay(TestCase):
    def test_static_inputs(self, device):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.LayerNorm(32)).to(device)
        static = torch.zeros(8, 16, device=device)
        with torch.no_grad():
            graph, result = captured(lambda: model(static))
            for _ in range(3):
                batch = torch.randn(8, 16)
                static.copy_(batch)
                graph.replay()
                self.assertEqual(result, model(batch.to(device)))

    def test_other_streams(self, device):
        x = torch.zeros(100, device=device)
        graph, _ = captured(lambda: x.add_(1))
        for stream in (torch.Stream(device=device), torch.Stream(device=device, priority=-1)):
            stream.wait_stream(torch.accelerator.current_stream())
            with stream:
                graph.replay()
            torch.accelerator.current_stream().wait_stream(stream)
        self.assertEqual(x, torch.full((100,), 2.0))

    def test_order_with_eager_work(self, device):
        x = torch.zeros(50, device=device)
        graph, _ = captured(lambda: x.mul_(2))
        for _ in range(5):
            x += 1
            graph.replay()
        self.assertEqual(x, torch.full((50,), 62.0))

    def test_counters(self, device):
        """A replay is charged as the same work in eager mode."""
        x = torch.randn(64, 64, device=device)

        def work():
            return (x @ x).softmax(-1).sum()

        def charged(run):
            torch.atalla.synchronize()
            telemetry.reset()
            run()
            torch.atalla.synchronize()
            counters = telemetry.counters()
            return {
                key: getattr(counters, key) for key in ("launches", "macs", "dram_bytes_read", "dram_bytes_written")
            }

        eager = charged(work)
        graph, _ = captured(work)
        self.assertGreater(eager["macs"], 0)
        self.assertEqual(charged(graph.replay), eager)

    def test_copies_on_the_device(self, device):
        x = torch.arange(12.0, device=device).view(3, 4)
        graph, (t, same, half) = captured(lambda: (x.t().contiguous(), x.clone(), x.half()))
        graph.replay()
        self.assertEqual((t, same, half), (x.cpu().t(), x.cpu(), x.cpu().half()))

    def test_pinned_copies(self, device):
        source, target = torch.zeros(6).pin_memory(), torch.zeros(6).pin_memory()
        x = torch.zeros(6, device=device)

        def work():
            x.copy_(source, non_blocking=True)
            x.mul_(2)
            target.copy_(x, non_blocking=True)

        graph, _ = captured(work)
        for value in (1.0, 7.0):
            source.fill_(value)
            graph.replay()
            torch.atalla.synchronize()
            self.assertEqual(target, torch.full((6,), 2 * value))

    def test_cpu_scalars_are_constants(self, device):
        x, scalar = torch.zeros(3, device=device), torch.tensor(2.0)
        graph, _ = captured(lambda: x.add_(scalar))
        scalar.fill_(100)
        graph.replay()
        self.assertEqual(x, torch.full((3,), 2.0))

    def test_fork_and_join(self, device):
        a, b = torch.randn(64, 64, device=device), torch.randn(64, 64, device=device)
        side, other = torch.Stream(device=device), torch.Stream(device=device)

        def work():
            main = torch.accelerator.current_stream()
            side.wait_stream(main)
            with side:
                p = a @ b
                event = side.record_event()
            with other:
                other.wait_event(event)  # joins through the first one
                q = p.relu()
            r = b @ a
            main.wait_stream(other)
            return r + q

        graph, result = captured(work)
        for _ in range(3):
            a.normal_()
            b.normal_()
            graph.replay()
            self.assertEqual(result, b @ a + (a @ b).relu())
        torch.atalla.synchronize()
        self.assertTrue(side.query() and other.query())

    def test_loadable(self, device):
        model = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU())
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.atl")
            torch_atalla.save_loadable(torch.export.export(model, (torch.randn(2, 8),)), path, fallback="error")
            run = torch_atalla.load_loadable(path, device=device)
            static = torch.zeros(2, 8, device=device)
            run(static)
            graph, result = captured(lambda: run(static))
            for _ in range(2):
                static.copy_(torch.randn(2, 8))
                graph.replay()
                self.assertEqual(result, model(static.cpu()))

    def test_many_replays_without_waiting(self, device):
        x, y = torch.zeros(1000, device=device), torch.ones(1000, device=device)
        graph, _ = captured(lambda: [x.add_(y) for _ in range(20)])
        for _ in range(100):
            graph.replay()
        self.assertEqual(x, torch.full((1000,), 2000.0))


class TestRefused(TestCase):
    """Each makes the capture invalid, which its end reports with the cause; afterwards everything works as before."""

    ACTIONS = {
        "item": lambda x: x.sum().item(),
        "bool": lambda x: bool((x > 0).all()),
        "to_cpu": lambda x: x.cpu(),
        "tolist": lambda x: x.tolist(),
        "from_cpu": lambda x: x.copy_(torch.ones(4)),
        "new_from_list": lambda x: torch.tensor([1.0, 2.0], device=x.device),
        "nonzero": lambda x: x.nonzero(),
        "mask": lambda x: x[x > 0],
        "stream_synchronize": lambda x: torch.accelerator.current_stream().synchronize(),
        "stream_query": lambda x: torch.accelerator.current_stream().query(),
        "replay": lambda x: OTHER["graph"].replay(),
    }

    @parametrize("action", list(ACTIONS))
    def test_needs_a_result(self, device, action):
        x = torch.ones(4, device=device)
        OTHER["graph"] = captured(lambda: x + 1)[0]
        graph = torch.atalla.Graph()
        seen = None
        with self.assertRaisesRegex(RuntimeError, INVALID):
            with torch.atalla.graph(graph):
                x * 2
                try:
                    self.ACTIONS[action](x)
                except RuntimeError as error:
                    seen = str(error)
                with self.assertRaisesRegex(RuntimeError, INVALID):
                    x * 2
        self.assertRegex(seen, f"{REFUSED}|Cannot copy between CPU and atalla tensors during atalla graph capture")
        self.assertFalse(torch.atalla.is_current_stream_capturing())
        with self.assertRaisesRegex(RuntimeError, "without a preceding successful capture"):
            graph.replay()
        self.assertEqual(x.sum().item(), 4)
        self.assertEqual(captured(lambda: x + 1)[1].shape, (4,))

    def test_device_synchronize(self, device):
        graph, x = torch.atalla.Graph(), torch.ones(4, device=device)
        with torch.atalla.graph(graph):
            y = x + 1
            with self.assertRaisesRegex(RuntimeError, REFUSED):
                torch.atalla.synchronize()
            torch.atalla.synchronize(1)  # of another device
        graph.replay()
        self.assertEqual(y, torch.full((4,), 2.0))

    def test_events(self, device):
        graph, x = torch.atalla.Graph(), torch.ones(4, device=device)
        event = torch.Event(device=device)
        with torch.atalla.graph(graph):
            y = x + 1
            event.record()
            with self.assertRaisesRegex(RuntimeError, "event last recorded in a capturing stream"):
                event.query()
        with self.assertRaisesRegex(RuntimeError, "event last recorded in a capturing stream"):
            event.synchronize()
        graph.replay()
        event.record()
        event.synchronize()
        self.assertTrue(event.query())
        self.assertEqual(y, torch.full((4,), 2.0))

    def test_uncaptured_dependency(self, device):
        side, x = torch.Stream(device=device), torch.ones(4, device=device)
        with side:
            event = side.record_event()
        with self.assertRaisesRegex(RuntimeError, INVALID):
            with torch.atalla.graph(torch.atalla.Graph()):
                x + 1
                with self.assertRaisesRegex(RuntimeError, "dependency created on uncaptured work in another stream"):
                    torch.accelerator.current_stream().wait_event(event)

    def test_unjoined(self, device):
        side, x = torch.Stream(device=device), torch.ones(4, device=device)
        with self.assertRaisesRegex(RuntimeError, "unjoined work"):
            with torch.atalla.graph(torch.atalla.Graph()):
                side.wait_stream(torch.accelerator.current_stream())
                with side:
                    x + 1
        with side:
            self.assertEqual((x + 1).sum().item(), 8)

    def test_second_capture(self, device):
        x, graph = torch.ones(4, device=device), torch.atalla.Graph()
        with torch.atalla.graph(graph):
            y = x + 1
            with self.assertRaisesRegex(RuntimeError, REFUSED):
                torch.atalla.Graph().capture_begin()
            with self.assertRaisesRegex(RuntimeError, "capturing already"):
                graph.capture_begin()
        graph.replay()
        self.assertEqual(y, torch.full((4,), 2.0))

    def test_captures_on_two_streams(self, device):
        x = torch.ones(4, device=device)
        a, b = torch.Stream(device=device), torch.Stream(device=device)
        first, second = torch.atalla.Graph(), torch.atalla.Graph()
        with a:
            first.capture_begin()
            y = x + 1
            with b:
                second.capture_begin()
                z = x + 2
                second.capture_end()
            y *= 2
            first.capture_end()
        first.replay()
        second.replay()
        self.assertEqual((y, z), (torch.full((4,), 4.0), torch.full((4,), 3.0)))

    def test_fallback(self, device):
        x = torch.rand(4, device=device)
        with torch_atalla.fallback.mode("silent"):
            with self.assertRaisesRegex(RuntimeError, INVALID):
                with torch.atalla.graph(torch.atalla.Graph()):
                    with self.assertRaisesRegex(RuntimeError, f"{REFUSED}.*atalla_test::add_relu"):
                        models.add_relu(x, 0.1)

    def test_python_errors_pass(self, device):
        x, graph = torch.ones(4, device=device), torch.atalla.Graph()
        with self.assertRaisesRegex(ZeroDivisionError, "mine"):
            with torch.atalla.graph(graph):
                y = x + 1
                raise ZeroDivisionError("mine")
        graph.replay()  # what was captured before is whole
        self.assertEqual(y, torch.full((4,), 2.0))

    def test_wrong_stream_at_the_end(self, device):
        graph, stream = torch.atalla.Graph(), torch.Stream(device=device)
        with stream:
            graph.capture_begin()
        with self.assertRaisesRegex(RuntimeError, "Capture must end on the same stream it began on"):
            graph.capture_end()
        with stream:
            self.assertFalse(torch.atalla.is_current_stream_capturing())

    def test_forgotten_capture(self, device):
        stream = torch.Stream(device=device)
        with stream:
            graph = torch.atalla.Graph()
            graph.capture_begin()
            torch.ones(4, device=device)
            del graph
            self.assertFalse(torch.atalla.is_current_stream_capturing())
            self.assertEqual(torch.ones(4, device=device).sum().item(), 4)

    def test_other_threads(self, device):
        """Work on streams of their own goes on during a capture."""
        x, graph, results = torch.ones(100, device=device), torch.atalla.Graph(), []

        def work():
            with torch.Stream(device=device):
                results.append([(x * i).sum().item() for i in range(20)])

        with torch.atalla.graph(graph):
            y = x + 1
            threads = [threading.Thread(target=work) for _ in range(3)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            z = y * 2
        self.assertEqual(results, [[100.0 * i for i in range(20)]] * 3)
        graph.replay()
        self.assertEqual(z, torch.full((100,), 4.0))


for _suite in (TestAcceleratorGraph, TestReplay, TestRefused):
    instantiate_device_type_tests(_suite, globals(), only_for=("atalla",))


def test_the_suites_are_there():
    made = [c for c in globals().values() if isinstance(c, type) and issubclass(c, TestCase) and c is not TestCase]
    assert sum(name.startswith("test_") for c in made for name in dir(c)) >= 46
