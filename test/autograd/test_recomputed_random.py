# SPDX-License-Identifier: BSD-3-Clause
"""Random numbers that a compiled backward pass needs again are those of the forward pass, wherever it recomputes."""

from __future__ import annotations

import torch
from torch._functorch import config
from torch.nn import functional as F
from torch.testing._internal.common_utils import TestCase, instantiate_parametrized_tests, parametrize, run_tests
from torch.utils.checkpoint import checkpoint

PLACES = ("atalla:0", "atalla:1")


@torch.library.custom_op("atalla_test::noise", mutates_args=(), tags=[torch.Tag.nondeterministic_seeded])
def noise(x: torch.Tensor) -> torch.Tensor:
    return torch.rand_like(x)


noise.register_fake(torch.empty_like)


@torch.compiler.nested_compile_region
def region(x):
    return F.dropout(x.sin(), 0.5).exp()


def filled(method, *args):
    return lambda x: (x * getattr(torch.empty_like(x), method)(*args)).sin()


def attention(x):
    return F.scaled_dot_product_attention(x, x.sin(), x.cos(), dropout_p=0.4).sin()


RANDOM = {
    "dropout": lambda x: F.dropout(x, 0.5).sin(),
    "dropout of dropout": lambda x: F.dropout(F.dropout(x, 0.5).sin(), 0.3).exp(),
    "dropout1d": lambda x: F.dropout1d(x, 0.5).sin(),
    "alpha_dropout": lambda x: F.alpha_dropout(x, 0.5, training=True).sin(),
    "native_dropout": lambda x: torch.native_dropout(x, 0.5, True)[0].sin(),
    "rrelu": lambda x: F.rrelu(x, training=True).sin(),
    "rand": lambda x: (x * torch.rand(x.shape, device=x.device)).sin(),
    "rand_like": lambda x: (x * torch.rand_like(x)).sin(),
    "randn_like": lambda x: (x * torch.randn_like(x)).sin(),
    "randint": lambda x: (x * torch.randint(1, 5, x.shape, device=x.device)).sin(),
    "randint_like": lambda x: (x * torch.randint_like(x, 5)).sin(),
    "randperm": lambda x: x[torch.randperm(x.shape[0], device=x.device)].sin() * x,
    "bernoulli": lambda x: (x * torch.bernoulli(x.detach().sigmoid())).sin(),
    "bernoulli of a number": lambda x: (x * torch.bernoulli(x.detach(), 0.3)).sin(),
    "normal": lambda x: (x * torch.normal(x.detach(), x.detach().abs())).sin(),
    "normal of numbers": lambda x: (x * torch.normal(0.0, 1.0, x.shape, device=x.device)).sin(),
    "poisson": lambda x: (x * torch.poisson(x.detach().abs())).sin(),
    "multinomial": lambda x: x[torch.multinomial(x.detach().abs()[:, 0, 0], 3)].sin(),
    "bernoulli_": filled("bernoulli_", 0.3),
    "uniform_": filled("uniform_", 1, 2),
    "normal_": filled("normal_"),
    "exponential_": filled("exponential_"),
    "cauchy_": filled("cauchy_"),
    "geometric_": filled("geometric_", 0.3),
    "log_normal_": filled("log_normal_"),
    "attention": attention,
    "gumbel_softmax": F.gumbel_softmax,
    "on the CPU": lambda x: (x * torch.rand(())).sin(),
    "custom": lambda x: (x * noise(x.detach())).sin(),
}


def gradients(function, names, device):
    """Results and gradients of a sum of functions, and numbers drawn after each pass."""
    torch.manual_seed(3)
    inputs = [torch.randn(4, 3, 5).add_(0.1).to(device).requires_grad_() for _ in names]
    results = function(inputs)
    drawn = [torch.rand(2, device=device), torch.rand(2)]  # so that the backward pass begins at another state
    sum(result.square().sum() for result in results).backward()
    drawn += [torch.rand(2, device=device), torch.rand(2)]
    return [result.detach() for result in results], [x.grad for x in inputs], drawn


class TestRecomputedRandom(TestCase):
    def setUp(self):
        super().setUp()
        torch._dynamo.reset()

    def check(self, function, names, device):
        expected = gradients(function, names, device)
        found = gradients(torch.compile(function, fullgraph=True), names, device)
        for name, *pairs in zip(names, *found[:2], *expected[:2]):
            self.assertEqual(pairs[0], pairs[2], msg=lambda text, name=name: f"{name}: {text}")
            self.assertEqual(pairs[1], pairs[3], msg=lambda text, name=name: f"gradient of {name}: {text}")
        self.assertEqual(found[2], expected[2], rtol=0, atol=0)

    @parametrize("device", PLACES)
    @parametrize("budget", (0.0, 0.1, 0.5))
    def test_memory_budget(self, device, budget):
        with config.patch(activation_memory_budget=budget):
            self.check(lambda xs: [f(x * 2) for f, x in zip(RANDOM.values(), xs)], RANDOM, device)

    @parametrize("device, budget", (("atalla:0", 1.0), ("atalla:1", 0.0)))
    def test_checkpoint(self, device, budget):
        def f(xs):
            parts = [checkpoint(f, x * 2, use_reentrant=False) for f, x in zip(RANDOM.values(), xs)]
            return [F.dropout(part) for part in parts]

        with config.patch(activation_memory_budget=budget):
            self.check(f, RANDOM, device)

    @parametrize("options", ({"aggressive_recomputation": True}, {"ban_recompute_not_in_allowlist": False}))
    def test_other_settings(self, options):
        names = ("dropout", "bernoulli", "uniform_")
        with config.patch(options):
            self.check(lambda xs: [RANDOM[name](x * 2) for name, x in zip(names, xs)], names, "atalla:1")

    @parametrize("budget", (0.0, 1.0))
    def test_control_flow(self, budget):
        """A body that draws: nested regions and conditions, and their order among other ops that draw."""

        def f(xs):
            x, y = xs
            x = F.dropout(checkpoint(region, region(x), use_reentrant=False))
            return x, torch.cond(y.sum() > 100, torch.sin, RANDOM["dropout"], (y * torch.rand_like(y),))

        with config.patch(activation_memory_budget=budget):
            self.check(f, ("regions", "condition"), "atalla:1")

    def test_draws_are_not_merged(self):
        names = ("uniform_", "randn_like", "rrelu", "custom", "regions")
        functions = [*(RANDOM[name] for name in names[:-1]), region]
        self.check(lambda xs: [f(x).sum() + f(x) for f, x in zip(functions, xs)], names, "atalla:0")

    def test_dynamic_sizes_and_two_devices(self):
        @torch.compile(fullgraph=True, dynamic=True)
        def f(x, y):
            return F.dropout(x * 2, 0.5).sin(), F.dropout(y * 2, 0.5).sin()

        with config.patch(activation_memory_budget=0.0):
            for rows in (3, 5, 8):
                x, y = (torch.randn(rows, 6, device=place, requires_grad=True) for place in PLACES)
                results = f(x, y)
                for place in PLACES:
                    torch.rand(2, device=place)
                torch.autograd.backward([result.sum() for result in results])
                for z, result in zip((x, y), results):
                    self.assertEqual(z.grad, torch.where(result == 0, 0, 4 * torch.cos(4 * z)))


instantiate_parametrized_tests(TestRecomputedRandom)

if __name__ == "__main__":
    run_tests()
