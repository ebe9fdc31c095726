# SPDX-License-Identifier: BSD-3-Clause
"""The kernels of Triton's tutorials 01 to 08 on the functional engine, against the CPU."""

import pytest
import torch
from torch.testing._internal.common_utils import TestCase, instantiate_parametrized_tests, parametrize, run_tests

triton = pytest.importorskip("triton", reason="the extra torch_atalla[triton] is not installed")

import kernels  # noqa: E402

DEVICE = "atalla"


def grid(n, block):
    return (triton.cdiv(n, block),)


class TestTutorials(TestCase):
    @parametrize("n", [1, 1024, 98432])
    def test_vector_add(self, n):
        x, y = torch.rand(n), torch.rand(n)
        out = torch.empty(n, device=DEVICE)
        kernels.vector_add[grid(n, 1024)](x.to(DEVICE), y.to(DEVICE), out, n, BLOCK=1024)
        self.assertEqual(out.cpu(), x + y)

    @parametrize("shape", [(1, 2), (1823, 781), (33, 1024)])
    def test_softmax(self, shape):
        x = torch.randn(shape)
        on_device = x.to(DEVICE)
        out = torch.empty_like(on_device)
        block = triton.next_power_of_2(shape[1])
        kernels.softmax_rows[(8,)](out, on_device, shape[1], shape[1], *shape, BLOCK=block, STAGES=2)
        self.assertEqual(out.cpu(), x.softmax(1))

    @parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
    @parametrize("activation", ["", "leaky_relu"])
    def test_matmul(self, dtype, activation):
        m, n, k = 200, 130, 300
        a, b = torch.randn(m, k).to(dtype), torch.randn(k, n).to(dtype)
        x, y = a.to(DEVICE), b.to(DEVICE)
        out = torch.empty(m, n, dtype=dtype, device=DEVICE)
        tuned = triton.autotune(configs=kernels.matmul_configs(), key=["M", "N", "K"])(kernels.matmul)
        tuned[lambda meta: (triton.cdiv(m, meta["BLOCK_M"]) * triton.cdiv(n, meta["BLOCK_N"]),)](
            x, y, out, m, n, k, *x.stride(), *y.stride(), *out.stride(), ACTIVATION=activation
        )
        expected = a.double() @ b.double()
        if activation:
            expected = torch.nn.functional.leaky_relu(expected)
        self.assertEqual(out.cpu(), expected.to(dtype), atol=0.02 if dtype != torch.float32 else 1e-4, rtol=1e-2)

    def test_dropout(self):
        x = torch.randn(10_000)
        out = torch.empty(10_000, device=DEVICE)
        again = torch.empty(10_000, device=DEVICE)
        other = torch.empty(10_000, device=DEVICE)
        for target, seed in ((out, 123), (again, 123), (other, 512)):
            kernels.seeded_dropout[grid(10_000, 1024)](x.to(DEVICE), target, 10_000, 0.5, seed, BLOCK=1024)
        self.assertEqual(out, again)
        self.assertNotEqual(out, other)
        kept = out.cpu() != 0
        self.assertEqual(out.cpu()[kept], (x * 2)[kept])
        self.assertTrue(4_700 < kept.sum() < 5_300)

    @parametrize("dtype", [torch.float32, torch.float16])
    def test_layer_norm(self, dtype):
        rows, n, groups = 151, 1000, 16
        x = torch.randn(rows, n).to(dtype).requires_grad_()
        weight, bias = torch.rand(n, requires_grad=True), torch.rand(n, requires_grad=True)
        grad = torch.randn(rows, n)
        expected = torch.nn.functional.layer_norm(x.float(), (n,), weight, bias, 1e-5)
        expected.backward(grad)
        on_device = x.detach().to(DEVICE)
        out = torch.empty_like(on_device, dtype=torch.float32)
        mean, rstd = torch.empty(rows, device=DEVICE), torch.empty(rows, device=DEVICE)
        w, b = weight.detach().to(DEVICE), bias.detach().to(DEVICE)
        kernels.layer_norm[(rows,)](on_device, out, w, b, mean, rstd, n, n, 1e-5, BLOCK=256)
        self.assertEqual(out.cpu(), expected.detach(), atol=1e-4, rtol=1e-4)

        grad_x = torch.empty_like(on_device)
        parts_w = torch.empty(groups, n, device=DEVICE)
        parts_b = torch.empty(groups, n, device=DEVICE)
        locks = torch.zeros(2 * groups, dtype=torch.int32, device=DEVICE)
        kernels.layer_norm_backward[(rows,)](
            grad_x, grad.to(DEVICE), parts_w, parts_b, on_device, w, mean, rstd, locks, n, n, GROUPS=groups, BLOCK=1024
        )
        grad_w, grad_b = torch.empty(n, device=DEVICE), torch.empty(n, device=DEVICE)
        for parts, total in ((parts_w, grad_w), (parts_b, grad_b)):
            kernels.sum_groups[grid(n, 128)](parts, total, groups, n, BLOCK_M=32, BLOCK_N=128)
        self.assertEqual(grad_x.cpu(), x.grad, atol=1e-3, rtol=1e-3)
        self.assertEqual(grad_w.cpu(), weight.grad, atol=1e-3, rtol=1e-4)
        self.assertEqual(grad_b.cpu(), bias.grad, atol=1e-3, rtol=1e-4)

    @parametrize("causal", [False, True])
    @parametrize("dtype", [torch.float32, torch.float16])
    def test_attention(self, causal, dtype):
        heads, length, width = 3, 128, 64
        scale = width**-0.5
        q, k, v = (torch.randn(heads, length, width).to(dtype).requires_grad_() for _ in range(3))
        grad = torch.randn(heads, length, width).to(dtype)
        expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)
        expected.backward(grad)
        x, y, z, g = (t.detach().to(DEVICE) for t in (q, k, v, grad))
        out = torch.empty_like(x)
        lse = torch.empty(heads, length, device=DEVICE)
        strides = (length * width, width, length)
        kernels.attention[(length // 32, heads)](
            x, y, z, out, lse, scale, *strides, BLOCK_M=32, BLOCK_N=32, WIDTH=width, CAUSAL=causal
        )
        tolerance = {"atol": 1e-4, "rtol": 1e-4} if dtype == torch.float32 else {"atol": 1e-2, "rtol": 1e-2}
        self.assertEqual(out.cpu(), expected.detach(), **tolerance)
        delta = (out.float() * g.float()).sum(-1)
        grads = [torch.empty_like(x) for _ in range(3)]
        kernels.attention_backward[(length // 32, heads)](
            x, y, z, g, lse, delta, *grads, scale, *strides, BLOCK=32, WIDTH=width, CAUSAL=causal
        )
        for found, source in zip(grads, (q, k, v), strict=True):
            self.assertEqual(found.cpu(), source.grad, **tolerance)

    def test_libdevice(self):
        x = torch.rand(98432)
        out = torch.empty(98432, device=DEVICE)
        kernels.arcsine[grid(98432, 1024)](x.to(DEVICE), out, 98432, BLOCK=1024)
        self.assertEqual(out.cpu(), x.asin())

    def test_grouped_matmul(self):
        sizes = [(64, 48, 100), (30, 70, 64), (128, 128, 32)]
        pairs = [(torch.randn(m, k).half(), torch.randn(k, n).half()) for m, n, k in sizes]
        on_device = [(a.to(DEVICE), b.to(DEVICE)) for a, b in pairs]
        outs = [torch.empty(m, n, dtype=torch.float16, device=DEVICE) for m, n, _ in sizes]
        addresses = [[a.data_ptr() for a, _ in on_device], [b.data_ptr() for _, b in on_device],
                     [c.data_ptr() for c in outs]]  # fmt: skip
        tables = [torch.tensor(t, device=DEVICE) for t in addresses]
        shapes = torch.tensor(sizes, dtype=torch.int32, device=DEVICE)
        strides = torch.tensor([(k, n, n) for _, n, k in sizes], dtype=torch.int32, device=DEVICE)
        kernels.grouped_matmul[(4,)](
            *tables, shapes, strides, len(sizes), PROGRAMS=4, BLOCK_M=32, BLOCK_N=32, BLOCK_K=32
        )
        for (a, b), c in zip(pairs, outs, strict=True):
            self.assertEqual(c.cpu(), (a.float() @ b.float()).half(), atol=0.05, rtol=1e-2)


instantiate_parametrized_tests(TestTutorials)

if __name__ == "__main__":
    run_tests()
