# SPDX-License-Identifier: BSD-3-Clause
"""torch.compile of functions that launch Triton kernels: one graph, and programs for the ops around the kernels."""

import pytest
import torch
from torch.testing._internal.common_utils import TestCase, instantiate_parametrized_tests, parametrize, run_tests

triton = pytest.importorskip("triton", reason="the extra torch_atalla[triton] is not installed")

import kernels  # noqa: E402

DEVICE = "atalla"


def added(x, y):
    out = torch.empty_like(x)
    n = x.numel()
    kernels.vector_add[(triton.cdiv(n, 1024),)](x, y, out, n, BLOCK=1024)
    return out


def around(x, y):
    return torch.relu(added(x * 2, y)) + 1


class TestCompile(TestCase):
    @parametrize("backend", ["atalla", None])
    def test_one_graph(self, backend):
        x, y = torch.randn(5000, device=DEVICE), torch.randn(5000, device=DEVICE)
        options = {} if backend is None else {"backend": backend}
        compiled = torch.compile(around, fullgraph=True, **options)
        self.assertEqual(compiled(x, y), around(x, y), atol=0, rtol=0)
        self.assertEqual(compiled(y, x), around(y, x), atol=0, rtol=0)

    def test_kernels_that_update_their_input(self):
        def updated(x):
            x = x + 1
            kernels.vector_add[(2,)](x, x, x, 2000, BLOCK=1024)
            return x.sum(), x

        x = torch.randn(2000, device=DEVICE)
        compiled = torch.compile(updated, backend="atalla", fullgraph=True)
        self.assertEqual(compiled(x), updated(x), atol=0, rtol=0)

    def test_gradients(self):
        class Add(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, y):
                return added(x, y)

            @staticmethod
            def backward(ctx, grad):
                return added(grad, torch.zeros_like(grad)), grad

        def loss(x, y):
            return (Add.apply(x.sin(), y) ** 2).sum()

        grads = []
        for function in (loss, torch.compile(loss, backend="atalla", fullgraph=True)):
            x = torch.linspace(-1, 1, 3000, device=DEVICE, requires_grad=True)
            y = torch.linspace(0, 2, 3000, device=DEVICE, requires_grad=True)
            function(x, y).backward()
            grads.append((x.grad, y.grad))
        self.assertEqual(grads[1], grads[0])


instantiate_parametrized_tests(TestCompile)

if __name__ == "__main__":
    run_tests()
