# SPDX-License-Identifier: BSD-3-Clause
"""torch.func and forward-mode AD on the device: the transforms that users write, equal to the CPU."""

from __future__ import annotations

import unittest

import torch
import torch.autograd.forward_ad as fwad
import torch.nn.functional as F
from opinfo_suite import DeviceTestCase, collected, host, raised
from torch.func import (
    functional_call,
    functionalize,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    stack_module_state,
    vjp,
    vmap,
)
from torch.testing._internal.common_device_type import instantiate_device_type_tests
from torch.testing._internal.common_utils import parametrize


def loss_of(model, x, target):
    return F.mse_loss(model(x), target)


def make_model(device, seed=0):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.LayerNorm(8), torch.nn.Linear(8, 2)).to(
        device
    )


class TestTransforms(DeviceTestCase):
    def both(self, f, *tensors, **tolerances):
        """f on the device equals f on the CPU."""
        want = f(*tensors)
        got = f(*(t.to("atalla") for t in tensors))
        for leaf in torch.utils._pytree.tree_leaves(got):
            self.assertEqual(leaf.device.type, "atalla")
        self.assertEqual(host(got), host(want), **(tolerances or {"atol": 1e-5, "rtol": 1e-5}))

    @parametrize("in_dims,out_dims", [((0, 0), 0), ((1, None), 0), ((2, 1), 1), ((-1, 0), -1), ((None, 1), 0)])
    def test_dims(self, device, in_dims, out_dims):
        x, y = torch.randn(3, 3, 3), torch.randn(3, 3)
        self.both(vmap(lambda a, b: (a @ b).softmax(-1), in_dims, out_dims), x, y)

    def test_nested_containers(self, device):
        f = vmap(lambda d: {"sum": d["a"] + d["b"][0], "a": d["a"]}, in_dims=({"a": 0, "b": [1]},))
        self.both(lambda a, b: f({"a": a, "b": [b]}), torch.randn(3, 2), torch.randn(2, 3))

    def test_nested_vmap(self, device):
        x, y = torch.randn(3, 4), torch.randn(5, 4)
        self.both(vmap(vmap(torch.dot, (None, 0)), (0, None)), x, y)

    def test_chunks(self, device):
        self.both(vmap(lambda t: t.cumsum(0), chunk_size=2), torch.randn(5, 4))

    def test_views_and_writes(self, device):
        def f(x):
            y = x.clone()
            y[1:].mul_(2)
            y.t()[0].fill_(3)
            return y.flatten(), y.unfold(0, 2, 1)

        self.both(vmap(f), torch.randn(5, 3, 4))

    def test_indexing(self, device):
        x, i = torch.randn(4, 6, 3), torch.randint(6, (4, 2))
        self.both(vmap(lambda a, k: a[k]), x, i)
        self.both(vmap(lambda a, k: a.index_put((k,), torch.ones(2, 3, device=a.device))), x, i)
        self.both(vmap(lambda a, k: a.scatter_add(0, k[:, None].expand(2, 3), a[:2])), x, i)

    def test_gradients_alone(self, device):
        """Whose batch is none of the operands'."""
        x, tangents = torch.tensor(0.3, device=device), torch.ones(2, device=device)
        sigmoid = torch.nn.functional.logsigmoid
        found, slope = vmap(lambda t: jvp(sigmoid, (x,), (t,)))(tangents)
        self.assertEqual((found.shape, slope.shape), ((2,), (2,)))
        points, others = torch.rand(4, 2, device=device), torch.rand(3, 2, device=device)
        with self.assertRaisesRegex(RuntimeError, "vmap over the gradient alone is not supported"):
            jacrev(lambda p: torch.cdist(p, others))(points)

    def test_value_dependent_control_is_refused(self, device):
        with self.assertRaisesRegex(RuntimeError, "data-dependent control flow|call .item"):
            vmap(lambda t: t if t.sum() > 0 else -t)(torch.randn(3, 2, device=device))

    @parametrize("randomness", ["different", "same"])
    def test_randomness(self, device, randomness):
        x = torch.zeros(4, 16, device=device)
        draws = [
            lambda t: t + torch.randn(16, device=t.device),
            lambda t: torch.randint(0, 1000, (16,), device=t.device) + t,
            lambda t: t + torch.randperm(16, device=t.device),
            lambda t: torch.rand_like(t) + t,
            lambda t: torch.bernoulli(t + 0.5),
            lambda t: F.dropout(t + 1),
            lambda t: t.clone().uniform_(),
            lambda t: torch.multinomial(t + 1, 8).float(),
        ]
        for i, draw in enumerate(draws):
            f = vmap(draw, randomness=randomness)
            if i >= 3 and (error := raised(lambda f=f: f(x.cpu()))) is not None:
                self.assertEqual(str(raised(lambda f=f: f(x))), str(error))
                continue
            y = f(x)
            rows = [bool((y[0] == y[k]).all()) for k in range(1, 4)]
            self.assertEqual(rows, [randomness == "same"] * 3)

    def test_randomness_is_refused(self, device):
        with self.assertRaisesRegex(RuntimeError, "randomness"):
            vmap(lambda t: t + torch.rand_like(t))(torch.zeros(3, 2, device=device))

    def test_grad(self, device):
        self.both(grad(lambda x: (x.sin() * x).sum()), torch.randn(5))
        self.both(grad(lambda x, y: (x @ y).square().sum(), argnums=(0, 1)), torch.randn(3, 4), torch.randn(4, 2))
        self.both(grad_and_value(lambda x: x.exp().sum()), torch.randn(5))
        self.both(grad(lambda x: (x.sum(), x + 1), has_aux=True), torch.randn(5))
        self.both(grad(grad(lambda x: x.pow(4).sum() if x.dim() == 0 else x.sum())), torch.tensor(1.5))

    def test_per_sample_gradients(self, device):
        x, y = torch.randn(5, 4), torch.randn(5, 2)

        def run(x, y):
            model = make_model(x.device)
            parameters = dict(model.named_parameters())

            def loss(p, a, b):
                return F.mse_loss(functional_call(model, p, (a.unsqueeze(0),)), b.unsqueeze(0))

            return vmap(grad(loss), (None, 0, 0))(parameters, x, y)

        self.both(run, x, y)
        model = make_model(device)
        first = torch.autograd.grad(loss_of(model, x[:1].to(device), y[:1].to(device)), list(model.parameters()))
        for got, want in zip(run(x.to(device), y.to(device)).values(), first):
            self.assertEqual(got[0], want, atol=1e-5, rtol=1e-5)

    def test_ensemble(self, device):
        def run(x):
            models = [make_model(x.device, seed) for seed in range(4)]
            parameters, buffers = stack_module_state(models)
            base = make_model("meta")
            out = vmap(lambda p, b, t: functional_call(base, (p, b), (t,)), (0, 0, None))(parameters, buffers, x)
            self.assertEqual(out[2], models[2](x), atol=1e-5, rtol=1e-5)
            return out

        self.both(run, torch.randn(6, 4))

    @parametrize("transform", [jacrev, jacfwd, hessian])
    def test_jacobians(self, device, transform):
        def f(x):
            y = torch.tanh(x @ x.new_ones(4, 3)) * x.sum()
            return y.square().sum() if transform is hessian else y

        self.both(transform(f), torch.randn(4))
        self.both(vmap(transform(f)), torch.randn(3, 4))

    def test_jacobian_of_convolution(self, device):
        w = torch.randn(2, 2, 3, 3)
        for transform in (jacrev, jacfwd):
            self.both(transform(lambda x, w=w: F.conv2d(x, w.to(x.device), padding=1).relu()), torch.randn(1, 2, 4, 4))
            self.both(transform(lambda w: F.conv2d(w.new_ones(1, 2, 4, 4), w)), w)

    def test_products(self, device):
        x, v = torch.randn(4), torch.randn(4)
        self.both(lambda x, v: jvp(lambda t: t.sin().cumsum(0), (x,), (v,)), x, v)
        self.both(lambda x, v: vjp(lambda t: t.sin().cumsum(0), x)[1](v), x, v)
        self.both(lambda x, v: jvp(grad(lambda t: t.pow(3).sum()), (x,), (v,)), x, v)
        self.both(lambda x, v: vmap(lambda t: jvp(torch.sin, (x,), (t,))[1])(torch.stack([v, 2 * v])), x, v)

    def test_linearize(self, device):
        def run(x, v):
            value, linear = linearize(lambda t: t.sin() * t.cos(), x)
            return value, linear(v)

        self.both(run, torch.randn(4), torch.randn(4))

    def test_functionalize(self, device):
        def f(x):
            y = x.clone()
            y[0].add_(1)
            return y.view(-1)

        self.both(functionalize(f), torch.randn(2, 3))

    def test_forward_mode(self, device):
        model = make_model(device)
        x, v = torch.randn(3, 4, device=device), torch.randn(3, 4, device=device)
        with fwad.dual_level():
            out = fwad.unpack_dual(model(fwad.make_dual(x, v)))
        self.assertEqual(out.tangent, jvp(model, (x,), (v,))[1])
        self.assertEqual(out.tangent, torch.einsum("bkbi,bi->bk", jacrev(model)(x), v), atol=1e-5, rtol=1e-5)

    def test_forward_over_parameters(self, device):
        model = make_model(device)
        x = torch.randn(3, 4, device=device)
        parameters = {name: p.detach() for name, p in model.named_parameters()}
        tangents = {name: torch.randn_like(p) for name, p in parameters.items()}
        _, out = jvp(lambda p: functional_call(model, p, (x,)), (parameters,), (tangents,))
        self.assertEqual(out.shape, (3, 2))
        step = 1e-3
        ahead = functional_call(model, {n: p + step * tangents[n] for n, p in parameters.items()}, (x,))
        behind = functional_call(model, {n: p - step * tangents[n] for n, p in parameters.items()}, (x,))
        self.assertEqual(out, (ahead - behind) / (2 * step), atol=5e-2, rtol=5e-2)

    def test_functional_call_leaves_the_module(self, device):
        model = make_model(device)
        x = torch.randn(3, 4, device=device)
        before = model(x)
        zeros = {name: torch.zeros_like(p) for name, p in model.named_parameters()}
        self.assertEqual(functional_call(model, zeros, (x,)), torch.zeros(3, 2, device=device))
        self.assertEqual(model(x), before)

    def test_custom_function_with_rule(self, device):
        class Cube(torch.autograd.Function):
            generate_vmap_rule = True

            @staticmethod
            def forward(x):
                return x**3

            @staticmethod
            def setup_context(ctx, inputs, output):
                ctx.save_for_backward(*inputs)
                ctx.save_for_forward(*inputs)

            @staticmethod
            def backward(ctx, g):
                return 3 * ctx.saved_tensors[0] ** 2 * g

            @staticmethod
            def jvp(ctx, tangent):
                return 3 * ctx.saved_tensors[0] ** 2 * tangent

        x = torch.randn(3, 4)
        self.both(vmap(Cube.apply), x)
        self.both(vmap(grad(lambda t: Cube.apply(t).sum())), x)
        self.both(lambda t: jvp(Cube.apply, (t,), (t,)), x)

    def test_attention_and_norms(self, device):
        q = torch.randn(3, 2, 5, 4)
        self.both(vmap(lambda t: F.scaled_dot_product_attention(t, t, t, is_causal=True)), q)
        self.both(vmap(grad(lambda t: F.scaled_dot_product_attention(t, t, t).sin().sum())), q)
        self.both(vmap(lambda t: F.scaled_dot_product_attention(t, t, t)), torch.randn(3, 2, 2, 5, 4))
        self.both(vmap(lambda t: F.batch_norm(t, None, None, training=True)), torch.randn(3, 4, 2, 5))
        self.both(vmap(grad(lambda t: F.group_norm(t, 2).sin().sum())), torch.randn(3, 4, 2, 5))

    def test_linear_algebra(self, device):
        a = torch.randn(3, 4, 4) + 4 * torch.eye(4)
        self.both(vmap(torch.linalg.inv), a, atol=1e-4, rtol=1e-4)
        self.both(vmap(torch.linalg.solve), a, torch.randn(3, 4), atol=1e-4, rtol=1e-4)
        self.both(vmap(lambda t: torch.linalg.svdvals(t)), a, atol=1e-4, rtol=1e-4)
        self.both(vmap(torch.linalg.det), a, atol=1e-3, rtol=1e-4)


class TestCollected(unittest.TestCase):
    def test_minimum(self):
        self.assertGreaterEqual(collected(globals(), "TestTransforms"), 30)


instantiate_device_type_tests(TestTransforms, globals(), only_for=("atalla",))
