# SPDX-License-Identifier: BSD-3-Clause
"""Sizes that change from call to call, for the torch.compile backend `atalla`."""

from __future__ import annotations

import torch
from test_torch_compile import CompileCase, D, gradients, rand
from torch import nn
from torch._dynamo.utils import counters
from torch.testing._internal.common_utils import run_tests


class TestDynamicSizes(CompileCase):
    def test_automatic(self):
        def f(x, y):
            return (x @ y).relu().sum(0) * x.shape[0]

        compiled = self.compiled(f)
        y = rand(8, 4)
        for rows in (3, 5, 7, 11):
            x = rand(rows, 8)
            self.same(compiled(x, y), f(x, y))
        self.assertEqual(counters["stats"]["unique_graphs"], 2)

    def test_marked(self):
        def f(x):
            return x.view(-1, 2).sum(1) + x.shape[1]

        compiled = self.compiled(f)
        x = rand(6, 4)
        torch._dynamo.mark_dynamic(x, 0)
        self.same(compiled(x), f(x))
        for rows in (3, 8):
            x = rand(rows, 4)
            self.same(compiled(x), f(x))
        self.assertEqual(counters["stats"]["unique_graphs"], 1)

    def test_numbers(self):
        def f(x, n):
            return x.expand(n, -1) * 2 + torch.arange(n, device=D).unsqueeze(1)

        compiled = torch.compile(f, backend="atalla", dynamic=True, fullgraph=True)
        for n in (4, 6, 9):
            x = rand(1, 3)
            self.same(compiled(x, n), f(x, n))

    def test_size_that_is_a_quotient(self):
        def f(x, rows):
            y = x.view(rows, -1)
            return y.sum(0), y.amax(1), y @ y.t()

        compiled = torch.compile(f, backend="atalla", dynamic=True, fullgraph=True)
        for n, rows in ((6, 2), (6, 3), (12, 4), (6, 1), (6, 6)):
            x = rand(n)
            self.same(compiled(x, rows), f(x, rows))

    def test_training(self):
        model = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 2)).to(D)
        compiled = torch.compile(model, backend="atalla", dynamic=True)
        for rows in (3, 5, 4):
            x = rand(rows, 6)
            self.same(gradients(compiled, model, x), gradients(model, model, x))


if __name__ == "__main__":
    run_tests()
