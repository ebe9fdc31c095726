# SPDX-License-Identifier: BSD-3-Clause
"""The torch.compile backend `atalla`: what it compiles has eager mode's bits, forward and backward."""

from __future__ import annotations

import copy
import logging

import torch
import torch._dynamo.testing
from torch import nn
from torch._dynamo.utils import counters
from torch.nn import functional as F
from torch.testing._internal.common_utils import TestCase, run_tests

LOWERING = "torch.atalla.compile"
D = "atalla"


class CompileCase(TestCase):
    def setUp(self):
        super().setUp()
        torch._dynamo.reset()
        counters.clear()
        torch.manual_seed(0)

    def compiled(self, function, **options):
        """Compiled whole: no graph break, no node that runs by itself."""
        return torch.compile(function, backend="atalla", fullgraph=True, options={"fallback": "error", **options})

    def check(self, function, *args, **options):
        """Equal bits, sizes, strides and dtypes. Gives the compiled function."""
        compiled = self.compiled(function, **options)
        self.same(compiled(*copied(args)), function(*copied(args)))
        return compiled

    def same(self, found, expected):
        found, expected = torch.utils._pytree.tree_leaves(found), torch.utils._pytree.tree_leaves(expected)
        self.assertEqual(len(found), len(expected))
        for a, b in zip(found, expected):
            if not isinstance(b, torch.Tensor):
                self.assertEqual(a, b)
                continue
            self.assertEqual((a.dtype, a.device, a.shape, a.stride()), (b.dtype, b.device, b.shape, b.stride()))
            self.assertEqual(a, b, rtol=0, atol=0)


def copied(args):
    return torch.utils._pytree.tree_map(lambda x: x.clone() if isinstance(x, torch.Tensor) else x, args)


def rand(*shape, **options):
    return torch.randn(*shape, device=D, **options)


class TestGraphs(CompileCase):
    def test_is_listed(self):
        self.assertIn("atalla", torch._dynamo.list_backends())

    def test_runs_as_one_program(self):
        def f(x, y):
            return (x @ y).relu() + x.sum(1, keepdim=True)

        with self.assertLogs(LOWERING, logging.INFO) as logs:
            self.check(f, rand(4, 8), rand(8, 8))
        self.assertEqual(len([line for line in logs.output if "1 program" in line]), 1)

    def test_several_results(self):
        def f(x):
            y = x.exp()
            return y, y.t(), y[1:], x, x.t(), (y + 1).sum(0), [y * 2, {"z": y}]

        self.check(f, rand(3, 4))

    def test_results_share_memory(self):
        def f(x):
            y = x + 1
            return y, y.view(-1), x.view(-1)

        x = rand(2, 3)
        y, flat, of_input = self.compiled(f)(x)
        self.assertEqual(y.data_ptr(), flat.data_ptr())
        self.assertEqual(of_input.data_ptr(), x.data_ptr())

    def test_updates_inputs(self):
        def f(x, y):
            x.add_(y)
            y.mul_(x.sum())
            return x * y

        compiled = self.compiled(f)
        given, expected = (rand(3, 4), rand(3, 4)), None
        expected = copied(given)
        address = given[0].data_ptr()
        self.same([compiled(*given), *given], [f(*expected), *expected])
        self.assertEqual(given[0].data_ptr(), address)

    def test_updates_a_view(self):
        def f(x):
            x[1:3].zero_()
            x.t()[0].add_(1)
            return x.sum()

        a, b = rand(4, 4), None
        b = a.clone()
        self.same([self.compiled(f)(a), a], [f(b), b])

    def test_swaps_inputs(self):
        def f(x, y):
            t = x.clone()
            x.copy_(y)
            y.copy_(t)

        a, b = rand(5), rand(5)
        x, y = a.clone(), b.clone()
        self.compiled(f)(x, y)
        self.same([x, y], [b, a])

    def test_counts_versions(self):
        def f(x):
            x.add_(1)

        x = rand(3)
        before = x._version
        self.compiled(f)(x)
        self.assertGreater(x._version, before)

    def test_updates_buffers(self):
        model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU()).to(D)
        other = copy.deepcopy(model)
        compiled = self.compiled(model)
        for _ in range(2):
            x = rand(2, 3, 8, 8)
            self.same(compiled(x), other(x))
        self.same(list(model.buffers()), list(other.buffers()))

    def test_strided_inputs(self):
        self.check(lambda x, y: x * 2 + y, rand(4, 6).t(), rand(6, 8)[:, ::2])
        compiled = self.compiled(lambda x: x.sum(0))
        self.same(compiled(rand(3, 5).zero_()), rand(5).zero_())
        x = rand(5, 3).t()
        self.same(compiled(x), x.sum(0))

    def test_dtypes(self):
        for dtype in (torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.int32, torch.uint8, torch.bool):
            x = torch.randint(0, 3, (4, 5), device=D).to(dtype)
            self.check(lambda x: (x + x, x * 3, x == 1, x.sum(0)), x)

    def test_empty_tensors(self):
        self.check(lambda x: (x * 2, x.sum(1)), rand(0, 4))

    def test_graph_without_tensors_of_the_device(self):
        compiled = torch.compile(lambda x: x + 1, backend="atalla")
        self.assertEqual(compiled(torch.ones(3)), torch.full((3,), 2.0))

    def test_constants(self):
        table = torch.tensor([1.0, 2.0, 4.0])
        self.check(lambda x: x + torch.tensor([1.0, 2.0, 3.0], device=D), rand(2, 3))
        self.check(lambda x: x * torch.arange(3, device=D) + torch.zeros(3, device=D), rand(2, 3))
        self.assertEqual(torch.compile(lambda x: x.cpu() + table, backend="atalla")(rand(3)).device.type, "cpu")


class TestHost(CompileCase):
    """What is not compiled runs between the programs."""

    def compiled(self, function, **options):
        return torch.compile(function, backend="atalla", options=options)

    def test_graph_break(self):
        def f(x):
            y = x.relu()
            if y.sum() > 0:
                return y * 2
            return y - 1

        for x in (rand(4), -rand(4).abs()):
            self.check(f, x)

    def test_mixed_devices(self):
        def f(x, y):
            z = y.exp()
            return (x * 2).cpu() + z, x + z.to(D), x * y.sum()

        self.check(f, rand(3), torch.randn(3))

    def test_numbers_on_the_host(self):
        self.check(lambda x, s: x * s + s, rand(3), torch.tensor(2.5))

    def test_custom_op(self):
        with torch.library._scoped_library("atalla_test_compile", "FRAGMENT") as library:
            library.define("double(Tensor x) -> Tensor")
            library.impl("double", lambda x: x * 2, "CompositeExplicitAutograd")
            library._register_fake("double", lambda x: torch.empty_like(x))
            op = torch.ops.atalla_test_compile.double
            with self.assertLogs(LOWERING, logging.INFO) as logs:
                self.check(lambda x: op(x.exp()).sin() + 1, rand(4))
            self.assertIn("atalla_test_compile::double", "\n".join(logs.output))
            with self.assertRaisesRegex(torch._dynamo.exc.BackendCompilerFailed, "atalla_test_compile::double"):
                torch._dynamo.reset()
                self.compiled(lambda x: op(x.exp()), fallback="error")(rand(4))

    def test_data_dependent_sizes(self):
        with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
            self.check(lambda x: (x * 2)[x > 0].exp(), rand(20))

    def test_second_device(self):
        if torch.accelerator.device_count() < 2:
            self.skipTest("one device")
        other = torch.device(D, 1)
        self.check(lambda x: x * 2 + 1, torch.randn(3, device=other))
        self.check(lambda x, y: (x * 2, y * 3), rand(3), torch.randn(3, device=other))

    def test_branches_and_loops(self):
        def branch(x):
            return torch.cond(x.sum() > 0, lambda x: x.sin() + 1, lambda x: x.cos() * 2, (x,))

        for x in (rand(4).abs(), -rand(4).abs()):
            self.check(branch, x)

        def loop(i, x):
            return torch._higher_order_ops.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (i, x))

        self.check(loop, torch.tensor(0, device=D), rand(3))

    def test_scan(self):
        from torch._higher_order_ops.scan import scan

        def f(x):
            return scan(lambda carry, y: (carry + y, carry * y), x[0], x, dim=0)

        self.check(f, rand(4, 3))


def gradients(function, model, *args):
    model.zero_grad()
    torch.manual_seed(3)
    loss = function(*args).square().mean()
    loss.backward()
    return [loss.detach(), *(p.grad for p in model.parameters())]


class Net(nn.Module):
    def __init__(self, p=0.0):
        super().__init__()
        self.embed = nn.Embedding(20, 16)
        self.attention = nn.MultiheadAttention(16, 2, dropout=p, batch_first=True)
        self.norm = nn.LayerNorm(16)
        self.out = nn.Linear(16, 16)
        self.drop = nn.Dropout(p)

    def forward(self, tokens):
        x = self.embed(tokens)
        x = self.norm(x + self.attention(x, x, x, need_weights=False)[0])
        return self.drop(F.gelu(self.out(x)))


class TestTraining(CompileCase):
    def tokens(self):
        return torch.randint(0, 20, (2, 6), device=D)

    def test_gradients(self):
        model, tokens = Net().to(D), self.tokens()
        self.same(gradients(self.compiled(model), model, tokens), gradients(model, model, tokens))

    def test_random_numbers(self):
        model, tokens = Net(0.3).to(D), self.tokens()
        compiled = self.compiled(model)
        for seed in (1, 2):
            torch.manual_seed(seed)
            found = compiled(tokens), torch.rand(3, device=D)
            torch.manual_seed(seed)
            self.same(found, (model(tokens), torch.rand(3, device=D)))
        self.same(gradients(compiled, model, tokens), gradients(model, model, tokens))

    def test_random_ops(self):
        def f(x):
            y = torch.randn_like(x) + torch.rand(3, device=D)
            return y, F.dropout(x, 0.5), torch.randint(0, 9, (4,), device=D), torch.bernoulli(x.sigmoid())

        compiled, x = self.compiled(f), rand(5, 3)
        for seed in (1, 2):
            torch.manual_seed(seed)
            found = compiled(x)
            torch.manual_seed(seed)
            self.same(found, f(x))

    def test_optimizers(self):
        for make in (
            lambda p: torch.optim.SGD(p, 0.1, momentum=0.9),
            lambda p: torch.optim.AdamW(p, 0.01),
            lambda p: torch.optim.RMSprop(p, 0.01),
        ):
            torch._dynamo.reset()
            torch.manual_seed(1)
            model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).to(D)
            other = copy.deepcopy(model)
            ours, theirs = make(model.parameters()), make(other.parameters())
            for group in theirs.param_groups:
                if "capturable" in group:
                    group["capturable"] = True
            step = torch.compile(ours.step, backend="atalla")
            for _ in range(3):
                x = rand(5, 4)
                for net in (model, other):
                    net.zero_grad()
                    net(x).square().sum().backward()
                step()
                theirs.step()
            self.assertEqual(list(model.parameters()), list(other.parameters()), rtol=1e-5, atol=1e-6)

    def test_autocast(self):
        model, tokens = Net().to(D), self.tokens()

        def f(tokens):
            with torch.autocast(D, torch.bfloat16):
                return model(tokens).float()

        self.same(gradients(self.compiled(f), model, tokens), gradients(f, model, tokens))

    def test_checkpoint(self):
        from torch.utils.checkpoint import checkpoint

        model, tokens = Net().to(D), self.tokens()

        def f(tokens):
            return checkpoint(model, tokens, use_reentrant=False)

        self.same(gradients(self.compiled(f), model, tokens), gradients(f, model, tokens))

    def test_checkpoint_draws_the_same_numbers_again(self):
        from torch.utils.checkpoint import checkpoint

        model, tokens = Net(0.3).to(D), self.tokens()

        def f(tokens):
            return checkpoint(model, tokens, use_reentrant=False)

        compiled = torch.compile(f, backend="atalla", fullgraph=True)
        self.same(gradients(compiled, model, tokens), gradients(model, model, tokens))
        drawn = torch.rand(2, device=D)
        gradients(model, model, tokens)
        self.same(drawn, torch.rand(2, device=D))

    def test_random_ops_of_dynamic_sizes(self):
        def f(x):
            return torch.randn_like(x) + F.dropout(x, 0.5)

        compiled = torch.compile(f, backend="atalla", fullgraph=True, dynamic=True)
        for rows in (3, 7, 1000):
            x = rand(rows, 5)
            torch.manual_seed(rows)
            found = compiled(x), torch.rand(2, device=D)
            torch.manual_seed(rows)
            self.same(found, (f(x), torch.rand(2, device=D)))

    def test_compiled_autograd(self):
        model, tokens = Net().to(D), self.tokens()
        expected = gradients(model, model, tokens)
        compiled = self.compiled(model)

        def step():
            with torch._dynamo.compiled_autograd._enable(torch.compile(backend="atalla", fullgraph=True)):
                return gradients(compiled, model, tokens)

        self.same(step(), expected)
        self.same(step(), expected)

    def test_gradients_of_gradients_are_refused(self):
        x = rand(3).requires_grad_()
        y = self.compiled(lambda x: (x.exp() * x).sum())(x)
        (first,) = torch.autograd.grad(y, x, create_graph=True)
        with self.assertRaisesRegex(RuntimeError, "does not currently support double backward"):
            first.sum().backward()

    def test_hooks(self):
        model, x = nn.Linear(4, 4).to(D), rand(2, 4)
        seen = []
        model.weight.register_hook(lambda g: seen.append(g.clone()))
        gradients(torch.compile(model, backend="atalla"), model, x)
        gradients(model, model, x)
        self.same(seen[0], seen[1])

    def test_double_use_of_a_parameter(self):
        model = nn.Linear(4, 4).to(D)

        def f(x):
            return model(model(x)) @ model.weight

        x = rand(3, 4)
        self.same(gradients(self.compiled(f), model, x), gradients(f, model, x))


class TestSubclasses(CompileCase):
    def test_two_tensors(self):
        from torch.testing._internal.two_tensor import TwoTensor

        def f(x, y):
            return (x @ y).relu() + 1

        x, y = TwoTensor(rand(4, 4), rand(4, 4)), rand(4, 4)
        found, expected = self.compiled(f)(x, y), f(x, y)
        self.assertIsInstance(found, TwoTensor)
        self.same([found.a, found.b], [expected.a, expected.b])

    def test_jagged(self):
        def f(x):
            return (x.sin() * 2).relu()

        parts = [rand(2, 3), rand(4, 3)]
        x = torch.nested.nested_tensor(parts, layout=torch.jagged)
        self.same(self.compiled(f)(x).values(), f(x).values())

    def test_parametrized(self):
        model, x = torch.nn.utils.parametrizations.weight_norm(nn.Linear(4, 3)).to(D), rand(2, 4)
        self.same(gradients(self.compiled(model), model, x), gradients(model, model, x))


class TestDefault(CompileCase):
    def test_default_backend(self):
        model, x = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).to(D), rand(3, 4)
        with self.assertLogs(LOWERING, logging.INFO):
            compiled = torch.compile(model)
            self.same(gradients(compiled, model, x), gradients(model, model, x))

    def test_modes(self):
        x = rand(3, 4)
        for mode in ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"):
            for backend in ("inductor", "atalla"):
                torch._dynamo.reset()
                self.same(torch.compile(lambda x: x.exp() + 1, mode=mode, backend=backend)(x), x.exp() + 1)

    def test_unknown_mode(self):
        with self.assertRaisesRegex(Exception, "Unrecognized mode=fastest, should be one of: default"):
            torch.compile(lambda x: x + 1, backend="atalla", mode="fastest")(rand(2))

    def test_unknown_option(self):
        for options, text in (
            ({"fusion": True}, "Unexpected optimization option fusion, known options are .*optimize"),
            ({"optimize": 3}, "Unexpected type of attr optimize, got int should be str"),
            ({"optimize": "most"}, "got 'most' should be one of 'none', 'exact', 'fast'"),
        ):
            torch._dynamo.reset()
            with self.assertRaisesRegex(Exception, text):
                torch.compile(lambda x: x + 1, backend="atalla", options=options)(rand(2))

    def test_levels(self):
        model, tokens = Net().to(D).eval(), torch.randint(0, 20, (2, 6), device=D)
        with torch.no_grad():
            for level in ("none", "exact"):
                torch._dynamo.reset()
                self.check(model, tokens, optimize=level)
            torch._dynamo.reset()
            self.assertEqual(self.compiled(model, optimize="fast")(tokens), model(tokens), rtol=1e-5, atol=1e-5)


if __name__ == "__main__":
    run_tests()
