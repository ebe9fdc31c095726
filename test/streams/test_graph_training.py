# SPDX-License-Identifier: BSD-3-Clause
"""Graphs of training steps, their random numbers and their memory pools."""

from __future__ import annotations

import gc

import torch
import torch.nn.functional as F
from graph_support import captured
from torch.testing._internal.common_device_type import instantiate_device_type_tests
from torch.testing._internal.common_utils import TestCase, parametrize


class TestTraining(TestCase):
    @parametrize("optimizer", ["sgd", "adam", "adamw", "adam_foreach"])
    def test_step(self, device, optimizer):
        """Forward, loss, backward and step in one graph give eager's parameters."""

        def make():
            torch.manual_seed(0)
            model = torch.nn.Sequential(torch.nn.Linear(12, 24), torch.nn.Tanh(), torch.nn.Linear(24, 3)).to(device)
            parameters = model.parameters()
            if optimizer == "sgd":
                return model, torch.optim.SGD(parameters, lr=0.05, momentum=0.9)
            if optimizer == "adamw":
                return model, torch.optim.AdamW(parameters, lr=0.01, capturable=True, foreach=False)
            return model, torch.optim.Adam(parameters, lr=0.01, capturable=True, foreach=optimizer == "adam_foreach")

        torch.manual_seed(1)
        batches = [(torch.randn(16, 12), torch.randint(3, (16,))) for _ in range(6)]

        def step(model, optimizer, x, y):
            optimizer.zero_grad(set_to_none=True)
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss

        model, eager = make()
        expected = [step(model, eager, x.to(device), y.to(device)).item() for x, y in batches]

        graphed, graphed_optimizer = make()
        x, y = (t.to(device) for t in batches[0])
        with torch.Stream(device=device):  # warm-up: the optimizer makes its state
            losses = [step(graphed, graphed_optimizer, x, y).item()]
        torch.atalla.synchronize()
        graph, loss = captured(lambda: step(graphed, graphed_optimizer, x, y))
        for new_x, new_y in batches[1:]:
            x.copy_(new_x)
            y.copy_(new_y)
            graph.replay()
            losses.append(loss.item())
        self.assertEqual(losses, expected, atol=1e-6, rtol=1e-5)
        for a, b in zip(graphed.parameters(), model.parameters()):
            self.assertEqual(a, b, atol=1e-6, rtol=1e-5)

    def test_make_graphed_callables(self, device):
        def run(graphed):
            torch.manual_seed(2)
            first = torch.nn.Sequential(torch.nn.Linear(6, 10), torch.nn.ReLU()).to(device)
            second = torch.nn.Linear(10, 2).to(device)
            loss = lambda y, t: F.mse_loss(y, t)  # noqa: E731
            if graphed:
                x, h = torch.randn(4, 6, device=device), torch.randn(4, 10, device=device, requires_grad=True)
                y = torch.randn(4, 2, device=device, requires_grad=True)
                first, second, loss = torch.atalla.make_graphed_callables(
                    (first, second, loss), ((x,), (h,), (y, torch.randn(4, 2, device=device)))
                )
            optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.1)
            torch.manual_seed(3)
            losses = []
            for _ in range(5):
                optimizer.zero_grad()
                value = loss(second(first(torch.randn(4, 6).to(device))), torch.randn(4, 2).to(device))
                value.backward()
                optimizer.step()
                losses.append(value.item())
            first.eval()
            return losses, [p.detach().cpu() for p in first.parameters()], first(torch.ones(2, 6, device=device))

        self.assertEqual(run(True), run(False))

    def test_make_graphed_callables_on_another_device(self, device):
        for index in (0, 1):
            torch.manual_seed(0)
            layer, x = torch.nn.Linear(4, 4).to(f"atalla:{index}"), torch.randn(3, 4).to(f"atalla:{index}")
            eager = layer.weight.detach(), layer.bias.detach()
            with torch.atalla.device(1 - index):
                graphed = torch.atalla.make_graphed_callables(layer, (x,))
                for _ in range(3):
                    given = torch.randn(3, 4).to(x.device)
                    result = graphed(given)
                    self.assertEqual(result, F.linear(given, *eager))
                    layer.zero_grad()
                    result.sum().backward()
                    self.assertEqual(layer.bias.grad, torch.full((4,), 3.0))
                self.assertEqual(torch.atalla.current_device(), 1 - index)
        with self.assertRaisesRegex(ValueError, "on one atalla device, got tensors on atalla:0, atalla:1"):
            torch.atalla.make_graphed_callables(
                lambda a, b: a + b.to(a.device), (torch.ones(2).to("atalla:0"), torch.ones(2).to("atalla:1"))
            )

    def test_make_graphed_callables_refuses(self, device):
        layer = torch.nn.Linear(3, 3, device=device)
        x = torch.ones(2, 3, device=device)
        with self.assertRaisesRegex(TypeError, "only Tensors"):
            torch.atalla.make_graphed_callables(layer, (3,))
        graphed = torch.atalla.make_graphed_callables(lambda a, b: a + b, (x, x.clone()))
        with self.assertRaisesRegex(TypeError, "expected 2 tensors"):
            graphed(x)
        self.assertEqual(graphed(x, 2 * x), torch.full((2, 3), 3.0))
        handle = layer.register_forward_hook(lambda *a: None)
        with self.assertRaisesRegex(RuntimeError, "hooks"):
            torch.atalla.make_graphed_callables(layer, (x,))
        handle.remove()
        with torch.autocast("atalla"), self.assertRaisesRegex(RuntimeError, "cache_enabled=False"):
            torch.atalla.make_graphed_callables(layer, (x,))


class TestRandomInGraphs(TestCase):
    def test_each_replay_draws_on(self, device):
        """What eager work would draw: the generator stands where the graph's draws would have left it."""

        def work(x):
            return x + torch.rand(33, device=device), torch.randn(7, device=device), F.dropout(x, 0.5)

        x = torch.ones(33, device=device)
        torch.manual_seed(5)
        offset = torch.atalla.random._generator().get_offset()
        graph, results = captured(lambda: work(x))
        self.assertEqual(torch.atalla.random._generator().get_offset(), offset)  # the capture draws nothing
        got = []
        for _ in range(3):
            graph.replay()
            got.append([r.clone() for r in results])
        after = torch.rand(5, device=device)
        torch.manual_seed(5)
        self.assertEqual(got, [list(work(x)) for _ in range(3)])
        self.assertEqual(after, torch.rand(5, device=device))

    def test_seed_between_replays(self, device):
        graph, x = captured(lambda: torch.rand(64, device=device))
        torch.manual_seed(8)
        graph.replay()
        first = x.clone()
        graph.replay()
        self.assertNotEqual(x.tolist(), first.tolist())
        torch.manual_seed(8)
        graph.replay()
        self.assertEqual(x, first)
        torch.manual_seed(8)
        self.assertEqual(torch.rand(64, device=device), first)

    def test_own_generators(self, device):
        a, b = torch.Generator(device).manual_seed(1), torch.Generator(device).manual_seed(2)
        graph = torch.atalla.Graph()
        graph.register_generator_state(a)
        with self.assertRaisesRegex(RuntimeError, "Expected a 'atalla' device type for generator but found 'cpu'"):
            graph.register_generator_state(torch.Generator())
        with torch.atalla.graph(graph):
            x = torch.rand(10, device=device, generator=a)
            y = torch.randn(5, device=device, generator=b)
            z = torch.rand(10, device=device, generator=a)
        graph.replay()
        graph.replay()
        self.assertEqual((a.get_offset(), b.get_offset()), (40, 10))
        a.manual_seed(1).set_offset(20)
        b.manual_seed(2).set_offset(5)
        self.assertEqual(x, torch.rand(10, device=device, generator=a))
        self.assertEqual(y, torch.randn(5, device=device, generator=b))
        self.assertEqual(z, torch.rand(10, device=device, generator=a))

    def test_shared_states(self, device):
        g = torch.Generator(device).manual_seed(1)
        first, second = g.clone_state(), torch.Generator(device).manual_seed(9)
        graph = torch.atalla.Graph()
        with torch.atalla.graph(graph):
            g.graphsafe_set_state(first)
            x = torch.rand(8, device=device, generator=g)
            g.graphsafe_set_state(second)
            y = torch.rand(8, device=device, generator=g)
        graph.replay()
        self.assertEqual((first.get_offset(), second.get_offset()), (8, 8))
        self.assertEqual(x, torch.rand(8, device=device, generator=torch.Generator(device).manual_seed(1)))
        self.assertEqual(y, torch.rand(8, device=device, generator=torch.Generator(device).manual_seed(9)))

    @parametrize("use_reentrant", [True, False])
    def test_checkpointing(self, device, use_reentrant):
        """The recomputation in a captured backward draws the forward's numbers again, at every replay."""
        layer = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.5)).to(device)
        x = torch.randn(4, 8, device=device, requires_grad=True)

        def step(checkpointed):
            if checkpointed:
                y = torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=use_reentrant)
            else:
                y = layer(x)
            return (y, *torch.autograd.grad(y.square().sum(), (x,))) if use_reentrant is False else backward(y)

        def backward(y):
            x.grad = None
            y.square().sum().backward()
            return y, x.grad

        graph, results = captured(lambda: step(True))
        for seed in (1, 2):
            torch.manual_seed(seed)
            graph.replay()
            got = [r.detach().clone() for r in results]
            torch.manual_seed(seed)
            self.assertEqual(got, [r.detach() for r in step(False)])

    def test_states_during_capture(self, device):
        torch.manual_seed(3)
        torch.rand(2, device=device)
        g = torch.atalla.random._generator()
        graph = torch.atalla.Graph()
        with torch.atalla.graph(graph):
            state = g.get_state()
            torch.rand(5, device=device)
            self.assertEqual(g.get_offset(), 7)
            g.set_state(state)
            self.assertEqual(g.get_offset(), 2)
            x = torch.rand(5, device=device)  # the same positions again
            with self.assertRaisesRegex(RuntimeError, "during graph capture"):
                torch.atalla.manual_seed(4)
            with self.assertRaisesRegex(RuntimeError, "during graph capture"):
                g.set_offset(1000)
        self.assertEqual(g.get_offset(), 2)
        graph.replay()
        self.assertEqual(g.get_offset(), 7)
        torch.manual_seed(3)
        g.set_offset(2)
        self.assertEqual(x, torch.rand(5, device=device))

    def test_eager_draws_during_a_capture(self, device):
        """Other streams draw from the generator itself, as ever."""
        torch.manual_seed(3)
        graph = torch.atalla.Graph()
        capture = torch.atalla.graph(graph)
        # Streams come from a pool in turn: after as many as it has, the next is the capture's own.
        while (side := torch.Stream(device=device)) == capture.capture_stream:
            pass
        with capture:
            x = torch.rand(4, device=device)
            with side:
                y = torch.rand(4, device=device)
        side.synchronize()
        torch.manual_seed(3)
        self.assertEqual(y, torch.rand(4, device=device))
        graph.replay()
        torch.manual_seed(3)
        self.assertEqual(x, torch.rand(8, device=device)[4:])


class TestMemoryPool(TestCase):
    def allocated(self):
        gc.collect()
        torch.atalla.synchronize()
        return torch.atalla.memory_allocated()

    def reserved(self):
        gc.collect()
        torch.atalla.synchronize()
        torch.atalla.empty_cache()
        return torch.atalla.memory_reserved()

    def test_reset_gives_the_pool_back(self, device):
        before = self.allocated(), self.reserved()
        graph, result = captured(lambda: [torch.zeros(300_000, device=device) + 1 for _ in range(4)])
        self.assertGreater(self.allocated(), before[0])
        del result
        self.assertEqual(self.allocated(), before[0])
        self.assertGreater(self.reserved(), before[1])  # a replay will write there
        graph.replay()
        graph.reset()
        self.assertEqual((self.allocated(), self.reserved()), before)

    def test_results_outlive_the_graph(self, device):
        x = torch.arange(1000.0, device=device)
        graph, y = captured(lambda: x * 3)
        graph.replay()
        graph.reset()
        del graph
        others = [torch.full((1000,), 7.0, device=device) for _ in range(20)]
        self.assertEqual(y, torch.arange(1000.0) * 3)
        del others

    def test_eager_work_stays_out_of_the_pool(self, device):
        """Temporaries of the graph are overwritten by its replays only, and they overwrite nobody."""
        x = torch.ones(50_000, device=device)
        graph, y = captured(lambda: ((x + 1) * 2 - 3) / 4)
        eager = [torch.full((50_000,), float(i), device=device) for i in range(30)]
        graph.replay()
        for i, t in enumerate(eager):
            self.assertEqual(t, torch.full((50_000,), float(i)))
        self.assertEqual(y, torch.full((50_000,), 0.25))

    def test_shared_pool(self, device):
        before = self.reserved()
        x = torch.ones(200_000, device=device)
        pool = torch.atalla.graph_pool_handle()
        self.assertNotEqual(pool, torch.atalla.graph_pool_handle())
        first, y = captured(lambda: x + 1, pool=pool)
        self.assertEqual(tuple(first.pool()), tuple(pool))
        second, z = captured(lambda: y * 2, pool=first.pool())
        first.replay()
        second.replay()
        self.assertEqual(z, torch.full((200_000,), 4.0))
        first.reset()
        second.replay()
        self.assertEqual(z, torch.full((200_000,), 4.0))
        second.reset()
        x = y = z = None
        self.assertEqual(self.reserved(), before)

    def test_own_pools_differ(self, device):
        x = torch.ones(3, device=device)
        graphs = [captured(lambda: x + 1)[0] for _ in range(2)]
        self.assertNotEqual(tuple(graphs[0].pool()), tuple(graphs[1].pool()))

    def test_failed_capture_leaks_nothing(self, device):
        x = torch.ones(100_000, device=device)
        before = self.allocated(), self.reserved()
        for _ in range(3):
            graph = torch.atalla.Graph()
            with self.assertRaisesRegex(RuntimeError, "operation failed due to a previous error during capture"):
                with torch.atalla.graph(graph):
                    y = x + 1
                    y.sum().item()
            del y, graph
        self.assertEqual((self.allocated(), self.reserved()), before)

    def test_record_stream(self, device):
        side = torch.Stream(device=device)
        x = torch.ones(1000, device=device)

        def work():
            main = torch.accelerator.current_stream()
            t = x + 1
            side.wait_stream(main)
            with side:
                y = t * 2
            t.record_stream(side)
            del t
            z = x * 5  # must not take t's memory: the side stream may not have read it
            main.wait_stream(side)
            return y, z

        graph, (y, z) = captured(work)
        for _ in range(3):
            graph.replay()
            self.assertEqual((y, z), (torch.full((1000,), 4.0), torch.full((1000,), 5.0)))


for _suite in (TestTraining, TestRandomInGraphs, TestMemoryPool):
    instantiate_device_type_tests(_suite, globals(), only_for=("atalla",))


def test_the_suites_are_there():
    made = [c for c in globals().values() if isinstance(c, type) and issubclass(c, TestCase) and c is not TestCase]
    assert sum(name.startswith("test_") for c in made for name in dir(c)) >= 22
