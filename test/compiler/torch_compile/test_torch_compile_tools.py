# SPDX-License-Identifier: BSD-3-Clause
"""torch.compile beside other tools of PyTorch: flex_attention, explain, the profiler, repros, wrapped models."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import torch
from test_torch_compile import CompileCase, rand
from torch import nn
from torch._higher_order_ops import associative_scan, scan, while_loop
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.profiler import ProfilerActivity, profile
from torch.testing._internal.common_utils import run_tests
from torch.utils.checkpoint import checkpoint


class TestFlexAttention(CompileCase):
    def attend(self, query, key, value, bias):
        return flex_attention(query, key, value, lambda s, b, h, i, j: s + bias[i, j], block_mask=self.mask("atalla"))

    def mask(self, device):
        return create_block_mask(lambda b, h, i, j: i >= j, None, None, 64, 64, device=device, BLOCK_SIZE=32)

    def inputs(self):
        return [rand(2, 4, 64, 16) for _ in range(3)] + [rand(64, 64)]

    def test_forward(self):
        inputs = self.inputs()
        self.check(self.attend, *inputs)
        query, key, value, bias = (x.cpu() for x in inputs)
        expected = flex_attention(query, key, value, lambda s, b, h, i, j: s + bias[i, j], block_mask=self.mask("cpu"))
        self.assertEqual(self.attend(*inputs).cpu(), expected, atol=1e-5, rtol=1e-5)

    def test_gradients(self):
        leaves = [x.requires_grad_() for x in self.inputs()]

        def gradients(function):
            result = function(*leaves)
            return torch.autograd.grad(result, leaves, torch.ones_like(result))

        self.same(gradients(self.compiled(self.attend)), gradients(self.attend))

    def test_constants_under_autocast(self):
        """Constants of the score function, autocast and a mask, forward and backward."""
        leaves = [rand(1, 2, 64, 16).requires_grad_() for _ in range(3)]
        half = torch.tensor(0.5)

        def score(s, b, h, i, j):
            return torch.where(i >= j - 3, s * half, -float("inf")) + torch.tensor(0.5, device=s.device).clone()

        mask = self.mask("atalla")

        def attend(*inputs):
            with torch.autocast("atalla", torch.bfloat16):
                return flex_attention(*inputs, score, block_mask=mask)

        def gradients(function):
            result = function(*leaves)
            return result, torch.autograd.grad(result, leaves, torch.ones_like(result))

        self.same(gradients(torch.compile(attend, fullgraph=True)), gradients(attend))


class TestControlFlowUnderAutocast(CompileCase):
    def check_gradients(self, function, of_parameters=True):
        """`function` uses w once: eager mode's cache of casts would sum the gradients of several uses in bfloat16."""

        def f(x, w):
            with torch.autocast("atalla", torch.bfloat16):
                return function(x, w)

        x, w = rand(4, 4).requires_grad_(), rand(4, 4).requires_grad_()
        found, expected = torch.compile(f, fullgraph=True)(x, w), f(x, w)
        self.same(found, expected)
        if of_parameters:
            found, expected = (torch.autograd.grad(y.float().square().sum(), (x, w)) for y in (found, expected))
            self.same(found, expected)

    def test_cond(self):
        def f(x, w):
            return torch.cond(x.sum() > 100, lambda x, w: (x @ w).cos(), lambda x, w: (x @ w).sin(), (x, w))

        self.check_gradients(f)

    def test_while_loop(self):
        def f(x, w):
            start = torch.zeros((), dtype=torch.int64, device=x.device), x.detach()
            return while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, (y @ w.detach()).float()), start)[1]

        self.check_gradients(f, of_parameters=False)

    def test_scan(self):
        def f(x, w):
            w = w.detach()
            return scan(lambda c, y: ((c * y).exp(), (c @ w).float()), x[0].detach().clone(), x.detach())[1]

        self.check_gradients(f, of_parameters=False)  # upstream refuses gradients: it fears aliasing

    def test_associative_scan(self):
        self.check_gradients(lambda x, w: associative_scan(torch.add, x @ w, 0, combine_mode="generic"))

    def test_nested_region(self):
        @torch.compiler.nested_compile_region
        def region(x, w):
            return (x @ w).softmax(-1)

        self.check_gradients(lambda x, w: region(x, w))

    def test_checkpoint(self):
        def f(x, w):
            return checkpoint(lambda x: (x @ w).softmax(-1), x, use_reentrant=False)

        self.check_gradients(f)


class TestTools(CompileCase):
    def test_explain(self):
        def f(x):
            y = x.relu()
            torch._dynamo.graph_break()
            return y + 1

        report = torch._dynamo.explain(f)(rand(3))
        self.assertEqual((report.graph_count, report.graph_break_count), (2, 1))

    def test_profiler_shows_regions(self):
        compiled, x = self.compiled(lambda x: (x @ x).relu()), rand(32, 32)
        compiled(x)
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as profiler:
            compiled(x)
            torch.atalla.synchronize()
        regions = [event for event in profiler.key_averages() if event.key.startswith("Torch-Compiled Region")]
        self.assertEqual(len(regions), 1)
        self.assertGreater(regions[0].device_time_total, 0)

    def test_data_parallel(self):
        model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2)).to("atalla")
        x = rand(4, 8)
        model(x).sum().backward()
        expected = [p.grad.clone() for p in model.parameters()]
        model.zero_grad()
        with tempfile.TemporaryDirectory() as folder:
            torch.distributed.init_process_group("accl", init_method=f"file://{folder}/s", rank=0, world_size=1)
            try:
                torch.compile(nn.parallel.DistributedDataParallel(model), backend="atalla")(x).sum().backward()
            finally:
                torch.distributed.destroy_process_group()
        self.same([p.grad for p in model.parameters()], expected)

    def repro(self, breakage: str, name: str, after: str, level: int) -> str:
        """The script that a broken compiler leaves for a small function.

        Of a graph that AOTAutograd made it runs here, where the compiler is in order.
        """
        script = f"""
            import torch
            from torch_atalla.integration.dynamo import lowering
            from torch_atalla.integration.dynamo.compiled_region import CompiledRegion

            {breakage}
            try:
                torch.compile(lambda x: x.relu() + 1, backend="atalla")(torch.randn(3, device="atalla"))
            except Exception as error:
                print(type(error).__name__)
        """
        with tempfile.TemporaryDirectory() as folder:
            env = os.environ | {"TORCH_COMPILE_DEBUG_DIR": folder, "TORCHINDUCTOR_CACHE_DIR": f"{folder}/cache"}
            broken = env | {"TORCHDYNAMO_REPRO_AFTER": after, "TORCHDYNAMO_REPRO_LEVEL": str(level)}
            words = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(script)]
            done = subprocess.run(words, capture_output=True, text=True, env=broken, cwd=folder)
            raised = "AccuracyError" if (after, level) == ("aot", 4) else "BackendCompilerFailed"
            self.assertEqual(done.stdout, f"{raised}\n", done.stderr)
            path = next(Path(folder).rglob(name))
            if after == "aot":
                words = [sys.executable, "-W", "ignore", str(path), "run"]
                again = subprocess.run(words, capture_output=True, text=True, env=env, cwd=folder)
                self.assertEqual(again.returncode, 0, again.stderr)
            return path.read_text()

    def test_repro_of_an_error(self):
        for after in ("dynamo", "aot"):
            with self.subTest(after=after):
                text = self.repro("lowering.compile_captured = None", "repro.py", after, 1)
                self.assertIn("relu", text)
                self.assertIn("backend='atalla'" if after == "dynamo" else "accuracy=False", text)

    def test_repro_of_a_wrong_result(self):
        for after in ("dynamo", "aot"):
            with self.subTest(after=after):
                breakage = "CompiledRegion.forward = lambda self, x: [x + 2]"
                text = self.repro(breakage, "minifier_launcher.py", after, 4)
                self.assertIn("relu", text)
                self.assertIn("accuracy=True", text)


class TestStorageViews(CompileCase):
    """as_strided counts from the start of the storage."""

    def test_storage_views_of_lazy_bits(self):
        """Whose resolved copy has another storage."""
        x = torch.complex(torch.randn(2, 3), torch.randn(2, 3)).to("atalla").conj()
        for value in (x, x.imag, x.imag[1:]):
            for f in (
                lambda v: v.as_strided((2, 2), (1, 2), 1) + 1,
                lambda v: (v * 2).as_strided((2,), (1,), 0) + v[0, 0],
            ):
                torch._dynamo.reset()
                self.assertEqual(torch.compile(f)(value), f(value))

    def test_offsets_of_arguments(self):
        """Dynamo does not guard on storage offsets: a call with another one gets the same graph."""
        functions = (
            lambda v: v.as_strided((2, 2), (1, 2), 1) + 1,
            lambda v: torch.as_strided_copy(v, (2, 2), (1, 2), 1) + 1,
            lambda v: torch.as_strided_scatter(v, v.new_ones(2, 2), (2, 2), (1, 2), v.storage_offset()) + 1,
            lambda v: (v * 2)[1:].as_strided((2, 2), (1, 2), 0) + 1,
            lambda v: torch.as_strided_copy((v * 2)[1:], (2, 2), (1, 2)) + 1,
            lambda v: torch.as_strided_copy((v * 2)[1:], (2, 2), (1, 2), 1) + 1,
        )
        memory = torch.randn(16, device="atalla")
        views = [memory.as_strided((rows, 2), (2, 1), offset) for rows, offset in ((3, 0), (3, 2), (4, 2), (4, 4))]
        for number, function in enumerate(functions):
            for dynamic in (None, False, True):
                torch._dynamo.reset()
                compiled = torch.compile(function, dynamic=dynamic)
                for view in views:
                    with self.subTest(function=number, dynamic=dynamic, offset=view.storage_offset()):
                        self.assertEqual(compiled(view), function(view), rtol=0, atol=0)


if __name__ == "__main__":
    run_tests()
