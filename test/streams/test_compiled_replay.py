# SPDX-License-Identifier: BSD-3-Clause
"""Compiled functions that are replayed as device graphs: every call gives what eager mode gives, for tensors of each
device and layout, and from each stream and thread."""

from __future__ import annotations

import gc
import threading
import time
import unittest.mock

import torch
from torch import nn
from torch.nn import functional as F
from torch.testing._internal.common_utils import TestCase, instantiate_parametrized_tests, parametrize, run_tests

from torch_atalla.integration.dynamo import replay

MODES = ("reduce-overhead", "max-autotune")


def facts(tensor):
    return (
        *(tensor.dtype, tensor.device, tensor.shape, tensor.stride(), tensor.storage_offset()),
        *(tensor.is_conj(), tensor.is_neg(), tensor.requires_grad, tensor.is_inference()),
    )


def memory(tensors):
    """For each pair of tensors: whether they share memory."""
    places = [tensor.untyped_storage()._cdata for tensor in tensors]
    return [a == b for a in places for b in places]


def leaves(value):
    return [leaf for leaf in torch.utils._pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


class ReplayCase(TestCase):
    def setUp(self):
        super().setUp()
        torch._dynamo.reset()
        self.graphs = []
        original = replay._Captured.__init__

        def counted(captured, *args):
            original(captured, *args)
            self.graphs.append(captured)

        replay._Captured.__init__ = counted
        self.addCleanup(setattr, replay._Captured, "__init__", original)

    def same(self, found, expected, inputs=()):
        found, expected = leaves(found), leaves(expected)
        self.assertEqual(len(found), len(expected))
        self.assertEqual(memory([*found, *inputs]), memory([*expected, *inputs]))
        for a, b in zip(found, expected):
            self.assertEqual(facts(a), facts(b))
            self.assertEqual(a, b, rtol=0, atol=0)

    def check(self, function, *calls, mode="reduce-overhead", graphs=1):
        """Compare each call with eager mode, at the same random state. The function is captured `graphs` times."""
        compiled = torch.compile(function, mode=mode, fullgraph=True, dynamic=False)
        for number, args in enumerate(calls):
            with self.subTest(call=number):
                torch.manual_seed(number)
                expected = function(*args)
                torch.manual_seed(number)
                found = compiled(*args)
                self.same(found, expected, leaves(args))
        self.assertEqual(len(self.graphs), graphs)
        return compiled


@instantiate_parametrized_tests
class TestDevices(ReplayCase):
    @parametrize("mode", MODES)
    @parametrize("index", (0, 1))
    @parametrize("current", (0, 1))
    def test_device_of_the_tensors(self, mode, index, current):
        xs = [torch.randn(5, 3).to(f"atalla:{index}") for _ in range(4)]
        with torch.atalla.device(current), torch.no_grad():
            self.check(lambda x: F.dropout(x @ x.t()) + torch.ones(5, device=x.device), *((x,) for x in xs), mode=mode)
            self.assertEqual(torch.atalla.current_device(), current)

    def test_devices_in_turn(self):
        compiled = torch.compile(lambda x: F.dropout(x).exp(), mode="reduce-overhead")
        for number in range(8):
            x = torch.randn(6).to(f"atalla:{number % 2}")
            torch.manual_seed(number)
            expected = F.dropout(x).exp()
            torch.manual_seed(number)
            self.same(compiled(x), expected)
        self.assertEqual(len(self.graphs), 2)

    def test_several_devices_in_one_graph(self):
        xs = [torch.randn(4).to("atalla:0") for _ in range(4)]
        self.check(lambda x: (x + 1, x.to("atalla:1") * 2), *((x,) for x in xs), graphs=0)

    def test_work_on_the_host(self):
        xs = [torch.randn(4, device="atalla") for _ in range(4)]
        self.check(lambda x: x * torch.rand(()), *((x,) for x in xs), graphs=0)


LAYOUTS = {
    "transposed": lambda x: x.t(),
    "expanded": lambda x: x[:1].expand(4, 4),
    "expanded_twice": lambda x: x[:1, :1].expand(4, 4),
    "stepped": lambda x: x[:, ::2],
    "offset": lambda x: x[1:, 1:],
    "windows": lambda x: x.reshape(-1).unfold(0, 5, 3),
    "scalar": lambda x: x[1, 2],
    "row_of_one": lambda x: x[:, 1:2],
    "empty": lambda x: x[:0],
    "conjugate": lambda x: torch.complex(x, x + 1).conj(),
    "negative": lambda x: torch.complex(x, x + 1).conj().imag,
}


@instantiate_parametrized_tests
class TestLayouts(ReplayCase):
    @parametrize("name", list(LAYOUTS))
    def test_inputs(self, name):
        xs = [LAYOUTS[name](torch.randn(4, 4).to("atalla")) for _ in range(4)]
        self.check(lambda x: (x * 2, x.sum()), *((x,) for x in xs))

    @parametrize("name", list(LAYOUTS))
    def test_outputs(self, name):
        make = LAYOUTS[name]
        self.check(lambda x: (make(x.exp()), x + 1), *((torch.randn(4, 4).to("atalla"),) for _ in range(4)))

    @parametrize("name", list(LAYOUTS))
    def test_views_of_inputs(self, name):
        make, xs = LAYOUTS[name], [torch.randn(6, 6).to("atalla") for _ in range(4)]
        calls = [(x[k % 3 :][:4, :4],) for k, x in enumerate(xs)]  # other offsets
        self.check(lambda x: (make(x), x + 1), *calls)

    def test_results_share_memory(self):
        def function(x):
            y = x.exp()
            return y, y[1:], y.t(), y.view(-1)[2:5], y + 1

        self.check(function, *((torch.randn(4, 4).to("atalla"),) for _ in range(4)))

    def test_results_last(self):
        compiled = torch.compile(lambda x: x.exp(), mode="reduce-overhead")
        xs = [torch.randn(4).to("atalla") for _ in range(6)]
        results = [compiled(x) for x in xs]
        for x, result in zip(xs, results):
            self.same(result, x.exp())

    def test_inputs_share_memory(self):
        bases = [torch.randn(8, 8).to("atalla") for _ in range(4)]
        self.check(lambda a, b: (a @ b, a + b), *((x[:4, :4], x[:4, :4].t()) for x in bases))
        self.check(lambda a, b: a - b, *((x[0], x[0]) for x in bases), graphs=2)

    def test_writes_to_inputs(self):
        def function(x):
            x.mul_(2)
            return x + 1

        compiled = torch.compile(function, mode="reduce-overhead")
        for _ in range(4):
            a = torch.randn(4).to("atalla")
            b = a.clone()
            self.same(compiled(a), function(b))
            self.same(a, b)

    def test_memory_outside_of_an_input(self):
        bases = [torch.arange(9.0).to("atalla") + k for k in range(4)]
        self.check(lambda x: x.as_strided((2,), (1,), 0) + x[:2], *((x[3:],) for x in bases), graphs=0)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.scale = nn.Linear(4, 4), nn.Buffer(torch.ones(4))

    def forward(self, x):
        return self.linear(x) * self.scale


class TestParameters(ReplayCase):
    def models(self):
        torch.manual_seed(1)
        model, x = Model().to("atalla").eval(), torch.randn(2, 4).to("atalla")
        return model, torch.compile(model, mode="reduce-overhead"), x

    @torch.no_grad()
    def test_are_read_in_place(self):
        model, compiled, x = self.models()
        for k in range(4):
            model.linear.weight.fill_(k)
            self.same(compiled(x), model(x))
        self.assertEqual(len(self.graphs), 1)

    @torch.no_grad()
    def test_move(self):
        model, compiled, x = self.models()
        for k in range(6):
            model.linear.weight.data = torch.full((4, 4), float(k)).to("atalla")  # the memory of the last is free
            self.same(compiled(x), model(x))
            model.scale = torch.full((4,), float(k)).to("atalla")
            self.same(compiled(x), model(x))

    @torch.no_grad()
    def test_change_size_at_one_address(self):
        model, compiled, x = self.models()
        whole = torch.randn(64).to("atalla")
        for shape in ((4, 4), (4, 4), (8, 4), (8, 4), (4, 4), (2, 4)):
            model.linear.weight.data = whole[: shape[0] * 4].view(shape)
            model.linear.bias.data = whole[: shape[0]]
            model.scale = whole[: shape[0]]
            self.same(compiled(x), model(x))
        for k in range(3):
            model.linear.weight.data = whole[:16].view(4, 4).t() if k % 2 else whole[:16].view(4, 4)
            model.linear.bias.data = model.scale = whole[:4]
            self.same(compiled(x), model(x))

    @torch.no_grad()
    def test_captures_end(self):
        model, compiled, x = self.models()
        kept = [torch.randn(4, 4).to("atalla") for _ in range(replay._MOST_CAPTURES + 4)]
        for weight in kept:
            model.linear.weight.data = weight
            self.same(compiled(x), model(x))
        self.assertEqual(len(self.graphs), replay._MOST_CAPTURES)


class TestStreamsAndThreads(ReplayCase):
    def setUp(self):
        super().setUp()
        self.function = lambda x: (x @ x * 1e-2).relu() + x
        self.xs = [torch.full((96, 96), 0.01 * (i + 1)).to("atalla") for i in range(12)]
        self.expected = [self.function(x) for x in self.xs]
        self.compiled = torch.compile(self.function, mode="reduce-overhead")
        for _ in range(3):
            self.compiled(self.xs[0])
        torch.atalla.synchronize()

    def test_streams(self):
        streams = [torch.Stream(device="atalla") for _ in range(3)]
        found = []
        for i, x in enumerate(self.xs):
            with streams[i % 3]:
                found.append(self.compiled(x))
        torch.atalla.synchronize()
        self.same(found, self.expected)
        self.assertEqual(len(self.graphs), 1)

    def test_threads(self):
        found = [None] * len(self.xs)

        def work(k):
            with torch.Stream(device="atalla") if k == 2 else torch.no_grad():
                for _ in range(3):
                    for i in range(k, len(self.xs), 3):
                        found[i] = self.compiled(self.xs[i])
                torch.atalla.current_stream().synchronize()

        threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        torch.atalla.synchronize()
        self.same(found, self.expected)

    def test_the_graph_dies_while_it_runs(self):
        stream = torch.Stream(device="atalla")
        with stream:
            found = [self.compiled(x) for x in self.xs]
        self.compiled = None
        self.graphs.clear()
        torch._dynamo.reset()
        gc.collect()
        torch.atalla.empty_cache()
        others = [torch.full((96, 96), 7.0).to("atalla") for _ in range(8)]
        stream.synchronize()
        self.same(found, self.expected)
        del others

    def test_inside_a_capture(self):
        x = torch.zeros(96, 96).to("atalla")
        graph = torch.atalla.Graph()
        with torch.atalla.graph(graph):
            found = self.compiled(x)
        for other, expected in zip(self.xs, self.expected):
            x.copy_(other)
            graph.replay()
            self.same(found, expected)

    def test_while_another_thread_captures(self):
        began, end = threading.Event(), threading.Event()

        def work():
            x = torch.ones(4).to("atalla")
            with torch.atalla.graph(torch.atalla.Graph()):
                x + 1
                began.set()
                end.wait(30)

        thread = threading.Thread(target=work)
        thread.start()
        began.wait(30)
        try:
            fresh = torch.compile(lambda x: x.exp() + x, mode="reduce-overhead")
            for x in self.xs[:3]:
                self.same(fresh(x), x.exp() + x)
        finally:
            end.set()
            thread.join()
        for x in self.xs:
            self.same(fresh(x), x.exp() + x)

    def test_while_another_thread_captures_the_same_function(self):
        """The capture shares the memory of intermediate values with the function, so the call comes after it."""
        began = threading.Event()

        class Slow(replay.graph):
            def __exit__(self, *exc_info):
                began.set()
                time.sleep(0.2)
                super().__exit__(*exc_info)

        function = lambda x: (x.exp() + x).sum(1).sin()  # noqa: E731
        fresh = torch.compile(function, mode="reduce-overhead")
        for _ in range(2):  # compiled, and run once before the capture
            self.same(fresh(self.xs[0]), function(self.xs[0]))
        found = {}
        thread = threading.Thread(target=lambda: found.update({1: fresh(self.xs[1])}))
        with unittest.mock.patch.object(replay, "graph", Slow):
            thread.start()
            self.assertTrue(began.wait(30))
            found[2] = fresh(self.xs[2])
            thread.join()
        self.assertEqual(len(self.graphs), 2)  # with that of setUp
        self.same([found[1], found[2]], [function(x) for x in self.xs[1:3]])

    def test_other_sizes_on_other_streams(self):
        """The function itself runs for them, on another stream than the graph, and in turn with it."""
        function = lambda x: torch.softmax(x @ x.mT, -1) @ x  # noqa: E731
        compiled = torch.compile(function, mode="reduce-overhead", dynamic=True)
        xs = [torch.randn(n, 48).to("atalla") for n in (160, 96) * 8]
        expected = [function(x) for x in xs]
        streams = [torch.Stream(device="atalla") for _ in range(2)]
        found = []
        torch.atalla.synchronize()
        for k, x in enumerate(xs):
            with streams[k % 2]:
                found.append(compiled(x))
        torch.atalla.synchronize()
        self.same(found, expected)


class TestState(ReplayCase):
    def test_modes_of_gradients(self):
        function, xs = lambda x: x.exp() + 1, [torch.randn(4).to("atalla") for _ in range(8)]
        compiled = torch.compile(function, mode="reduce-overhead")
        modes = (torch.inference_mode, torch.no_grad, torch.enable_grad, torch.inference_mode, torch.no_grad)
        for _ in range(3):
            for mode, x in zip(modes, xs):
                with mode():
                    self.same(compiled(x), function(x))
                    y = x * 1  # made in this mode
                    self.same(compiled(y), function(y))

    def test_inputs_that_require_gradients(self):
        function, xs = lambda x: (x > 0, x.detach() * 2), [torch.randn(4).to("atalla") for _ in range(5)]
        compiled = torch.compile(function, mode="reduce-overhead")
        for x in xs:
            x.requires_grad_()
            self.same(compiled(x), function(x))

    def test_random_numbers(self):
        function = lambda x: (F.dropout(x), torch.rand_like(x), torch.randperm(5, device=x.device))  # noqa: E731
        compiled = torch.compile(function, mode="reduce-overhead")
        x = torch.randn(20).to("atalla")
        torch.manual_seed(3)
        expected = [function(x) for _ in range(6)]
        torch.manual_seed(3)
        self.same([compiled(x) for _ in range(6)], expected)

    def test_errors_leave_nothing_behind(self):
        x = torch.ones(4).to("atalla")
        wanted = torch.compile(lambda x: x * 2, mode="reduce-overhead")
        for _ in range(4):
            self.same(wanted(x), x * 2)
            with self.assertRaises(RuntimeError):
                wanted(torch.ones(4).to("atalla").expand(3, 4) @ torch.ones(3).to("atalla"))
        self.assertFalse(torch.atalla.is_current_stream_capturing())

    def test_a_capture_that_fails(self):
        def function(args):
            (x,) = args
            args.clear()
            return (x * float(x.sum().item()),)  # refused in a capture

        replayed = replay.Replayed(function, (), torch.device("atalla", 0))
        for k in range(4):
            x = torch.full((3,), float(k)).to("atalla")
            self.same(replayed([x]), (x * 3 * k,))
        self.assertFalse(torch.atalla.is_current_stream_capturing())
        self.assertEqual(len(self.graphs), 0)

    def test_custom_operators_are_not_captured(self):
        calls = []

        @torch.library.custom_op("test_replay::counted", mutates_args=())
        def counted(x: torch.Tensor) -> torch.Tensor:
            calls.append(len(calls))
            return x * len(calls)

        counted.register_fake(lambda x: torch.empty_like(x))
        compiled = torch.compile(lambda x: counted(x) + 1, mode="reduce-overhead")
        x = torch.ones(3).to("atalla")
        for k in range(4):
            self.same(compiled(x), x * (k + 1) + 1)

    def test_switched_off_for_one_function(self):
        def function(x):
            with torch._dynamo.override_cudagraphs(fwd=False):
                return x.exp()

        self.check(function, *((torch.randn(4).to("atalla"),) for _ in range(3)), graphs=0)


if __name__ == "__main__":
    run_tests()
