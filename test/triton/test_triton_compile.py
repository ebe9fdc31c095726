# SPDX-License-Identifier: BSD-3-Clause
"""Triton kernels in programs: torch.compile makes one program of a graph with them, and loadables hold them."""

import os
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch.testing._internal.common_utils import TestCase, instantiate_parametrized_tests, parametrize, run_tests

import pytest  # isort: skip

triton = pytest.importorskip("triton", reason="the extra torch_atalla[triton] is not installed")

import kernels  # noqa: E402
import triton.language as tl  # noqa: E402
from torch.library import triton_op, wrap_triton  # noqa: E402

import torch_atalla  # noqa: E402

DEVICE = "atalla"
RUN = Path(torch_atalla.__file__).parent / "bin/atalla-run"


@triton.jit
def count_up(x, out, n, BLOCK: tl.constexpr):
    """out += x, in place."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + offsets, tl.load(out + offsets, mask=offsets < n) + tl.load(x + offsets, mask=offsets < n),
             mask=offsets < n)  # fmt: skip


@triton.jit
def copy_rows(x, out, columns, x_row, x_column, out_row, BLOCK: tl.constexpr):
    column = tl.arange(0, BLOCK)
    row = tl.program_id(0)
    values = tl.load(x + row * x_row + column * x_column, mask=column < columns)
    tl.store(out + row * out_row + column, values, mask=column < columns)


@triton.jit
def mix(a, b, x, BLOCK: tl.constexpr):
    """Two results, of two dtypes; b is updated."""
    at = tl.arange(0, BLOCK)
    values = tl.load(x + at)
    tl.store(a + at, values.to(tl.float16))
    tl.store(b + at, tl.load(b + at) * 2 + values.to(tl.int32))


@triton.jit
def follow(table, out):
    tl.store(out, tl.load(tl.load(table).to(tl.pointer_type(tl.float32))))


@triton.jit
def outside(x, out, BLOCK: tl.constexpr):
    tl.store(out + tl.arange(0, BLOCK), tl.inline_asm_elementwise("", "=r,r", [tl.load(x + tl.arange(0, BLOCK))],
                                                                  tl.int32, True, 1))  # fmt: skip


tuned_add = triton.autotune([triton.Config({"BLOCK": 128}), triton.Config({"BLOCK": 1024})], key=["n"])(
    kernels.vector_add
)


def added(x, y):
    out = torch.empty_like(x)
    n = x.numel()
    kernels.vector_add[(triton.cdiv(n, 1024),)](x, y, out, n, BLOCK=1024)
    return out


def around(x, y):
    return torch.relu(added(x * 2, y)) + 1


@triton_op("atalla_tests::added", mutates_args={})
def added_op(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    n = x.numel()
    wrap_triton(kernels.vector_add)[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, out, n, BLOCK=1024)
    return out


class Around(torch.nn.Module):
    def forward(self, x, y):
        return around(x, y)


class AroundOp(torch.nn.Module):
    def forward(self, x, y):
        return torch.relu(added_op(x * 2, y)) + 1


class Total(torch.nn.Module):
    """A buffer that a kernel updates."""

    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(300))

    def forward(self, x):
        count_up[(3,)](x, self.total, 300, BLOCK=128)
        return self.total * 2


def one_program(function, **options):
    return torch.compile(function, backend="atalla", fullgraph=True, options={"fallback": "error", **options})


class TestCompile(TestCase):
    def setUp(self):
        torch._dynamo.reset()

    def compare(self, function, *args, **options):
        """A program against eager mode, bit for bit, the arguments included."""
        given, kept = [a.clone() for a in args], [a.clone() for a in args]
        expected = function(*kept)
        with self.assertLogs("torch.atalla.compile", "INFO") as logs:
            found = one_program(function, **options)(*given)
        self.assertTrue(any("is compiled as 1 program; 0 of its nodes" in line for line in logs.output), logs.output)
        self.assertEqual((found, given), (expected, kept), atol=0, rtol=0)

    @parametrize("backend", ["atalla", None])
    def test_one_graph(self, backend):
        x, y = torch.randn(5000, device=DEVICE), torch.randn(5000, device=DEVICE)
        options = {} if backend is None else {"backend": backend}
        compiled = torch.compile(around, fullgraph=True, **options)
        self.assertEqual(compiled(x, y), around(x, y), atol=0, rtol=0)
        self.assertEqual(compiled(y, x), around(y, x), atol=0, rtol=0)

    @parametrize("optimize", ["none", "exact", "fast"])
    def test_one_program(self, optimize):
        self.compare(around, torch.randn(5000, device=DEVICE), torch.randn(5000, device=DEVICE), optimize=optimize)

    def test_kernels_that_update_their_input(self):
        def updated(x, y):
            count_up[(2,)](y, x, 2000, BLOCK=1024)
            z = x + 1
            count_up[(2,)](x, z, 2000, BLOCK=1024)
            count_up[(2,)](x, z, 2000, BLOCK=1024)
            return z.sum(), z

        self.compare(updated, torch.randn(2000, device=DEVICE), torch.randn(2000, device=DEVICE))

    def test_one_tensor_for_all_arguments(self):
        def doubled(x):
            x = x + 1
            kernels.vector_add[(2,)](x, x, x, 2000, BLOCK=1024)
            return x.sum(), x

        self.compare(doubled, torch.randn(2000, device=DEVICE))

    def test_two_results(self):
        def mixed(x, b):
            a = torch.empty(64, dtype=torch.float16, device=DEVICE)
            mix[(1,)](a, b, x, BLOCK=64)
            return a, b + 1

        ones = torch.ones(64, dtype=torch.int32, device=DEVICE)
        self.compare(mixed, torch.arange(64.0, device=DEVICE), ones)

    def test_strides(self):
        def transposed(x):
            y = (x * 2).t()
            out = torch.zeros(y.shape[0], 64, device=DEVICE)
            copy_rows[(y.shape[0],)](y, out, y.shape[1], y.stride(0), y.stride(1), 64, BLOCK=32)
            return out.t() + 1

        self.compare(transposed, torch.randn(24, 40, device=DEVICE))

    @parametrize("optimize", ["exact", "fast"])
    def test_views_of_arguments(self, optimize):
        """The kernel reads the third part of rows, and writes to a part of its result."""

        def part(x):
            y = torch.relu(x)
            third = y[:, 20:30]
            out = torch.zeros(8, 40, device=DEVICE)
            copy_rows[(8,)](third, out[:, 5:], 10, third.stride(0), 1, 40, BLOCK=16)
            return out, third.sum()

        self.compare(part, torch.randn(8, 30, device=DEVICE), optimize=optimize)

    def test_images_keep_the_strides_of_their_kernel(self):
        conv = torch.nn.Conv2d(3, 8, 3).to(DEVICE)

        def rows(x):
            y = conv(x)
            out = torch.empty(y.shape[3], y.shape[2], device=DEVICE)
            copy_rows[(y.shape[3],)](y, out, y.shape[2], y.stride(3), y.stride(2), out.stride(0), BLOCK=8)
            return out

        with torch.no_grad():
            self.compare(rows, torch.randn(2, 3, 8, 8, device=DEVICE))

    def test_tuned_kernels(self):
        def tuned(x, y):
            out = torch.empty_like(x)
            n = x.numel()
            tuned_add[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, out, n)
            return out * 2

        self.compare(tuned, torch.randn(3000, device=DEVICE), torch.randn(3000, device=DEVICE))

    def test_dynamic_sizes_stay_right(self):
        compiled = torch.compile(around, backend="atalla", fullgraph=True, dynamic=True)
        for n in (100, 1024, 3000):
            x, y = torch.randn(n, device=DEVICE), torch.randn(n, device=DEVICE)
            self.assertEqual(compiled(x, y), around(x, y), atol=0, rtol=0)

    def test_pointers_in_memory_run_between_programs(self):
        def followed(table, x):
            out = torch.empty(1, device=DEVICE)
            follow[(1,)](table, out)
            return out + x[:1]

        x = torch.randn(4, device=DEVICE)
        table = torch.tensor([x.data_ptr()], device=DEVICE)
        compiled = torch.compile(followed, backend="atalla", fullgraph=True)
        self.assertEqual(compiled(table, x), followed(table, x), atol=0, rtol=0)
        with self.assertRaisesRegex(Exception, r"follow .*reads addresses in memory"):
            one_program(followed, optimize="exact")(table, x)

    def test_a_kernel_that_cannot_be_compiled(self):
        def assembly(x):
            out = torch.empty_like(x)
            outside[(1,)](x, out, BLOCK=16)
            return out

        x = torch.zeros(16, dtype=torch.int32, device=DEVICE)
        with self.assertRaisesRegex(Exception, r"(?s)outside \(.*compile.py:\d+\) cannot be compiled: .*py:\d+:\d+"):
            one_program(assembly)(x)

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
        for function in (loss, one_program(loss)):
            x = torch.linspace(-1, 1, 3000, device=DEVICE, requires_grad=True)
            y = torch.linspace(0, 2, 3000, device=DEVICE, requires_grad=True)
            function(x, y).backward()
            grads.append((x.grad, y.grad))
        self.assertEqual(grads[1], grads[0])


class TestLoadable(TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "model.atl")

    def save(self, program, *args, **options):
        return torch_atalla.save_loadable(program, self.path, args=args or None, fallback="error", **options)

    @parametrize("optimize", ["none", "exact", "fast"])
    @parametrize("module", [Around, AroundOp])
    def test_modules(self, module, optimize):
        x, y = torch.randn(5000, device=DEVICE), torch.randn(5000, device=DEVICE)
        report = self.save(module(), x, y, optimize=optimize)
        self.assertEqual(report.host_calls, 0)
        self.assertEqual(torch_atalla.load_loadable(self.path)(x, y), around(x, y), atol=0, rtol=0)

    def test_exports_on_the_cpu(self):
        program = torch.export.export(AroundOp(), (torch.randn(2000), torch.randn(2000)))
        with self.assertWarnsRegex(UserWarning, "no golden outputs"):  # eager mode needs the device
            self.save(program)
        x, y = torch.randn(2000, device=DEVICE), torch.randn(2000, device=DEVICE)
        self.assertEqual(torch_atalla.load_loadable(self.path)(x, y), around(x, y), atol=0, rtol=0)

    def test_without_torch(self):
        x, y = torch.randn(2000, device=DEVICE), torch.randn(2000, device=DEVICE)
        self.save(Around(), x, y)
        given = []
        for name, value in (("x", x), ("y", y)):
            np.save(f"{self.path}.{name}.npy", value.cpu().numpy())
            given += ["--input", f"{self.path}.{name}.npy"]
        subprocess.run([RUN, self.path, *given, "--output", f"{self.path}.npy"], check=True, capture_output=True)
        self.assertEqual(torch.from_numpy(np.load(f"{self.path}.npy")), around(x, y).cpu(), atol=0, rtol=0)
        subprocess.run([RUN, self.path, "--check"], check=True, capture_output=True)

    def test_buffers_that_kernels_update(self):
        x = torch.randn(300, device=DEVICE)
        model, kept = Total().to(DEVICE), Total().to(DEVICE)
        self.save(model, x)
        loaded = torch_atalla.load_loadable(self.path)
        for _ in range(3):
            self.assertEqual(loaded(x), kept(x), atol=0, rtol=0)

    def test_dynamic_sizes_are_refused(self):
        size = torch.export.Dim("n", min=16, max=8192)
        shapes = {"x": {0: size}, "y": {0: size}}
        program = torch.export.export(AroundOp(), (torch.randn(2000), torch.randn(2000)), dynamic_shapes=shapes)
        with self.assertRaisesRegex(Exception, r"vector_add \(.*kernels.py:\d+\) with sizes that differ"):
            self.save(program)


instantiate_parametrized_tests(TestCompile)
instantiate_parametrized_tests(TestLoadable)

if __name__ == "__main__":
    run_tests()
