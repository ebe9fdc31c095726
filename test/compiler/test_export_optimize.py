# SPDX-License-Identifier: BSD-3-Clause
"""Passes on the linear program: what they join, and what they must leave. (Their bits: test_export_bits.py.)"""

from __future__ import annotations

import itertools
import warnings
from pathlib import Path
from typing import Any

import models
import torch
from export_suite import Fn, compiled, kernels
from launch_interpreter import run_program
from torch import nn
from torch.nn import functional as F
from torch.testing._internal.common_utils import TestCase

from torch_atalla.compiler import ExportError, compile_program
from torch_atalla.compiler.passes.linear import check_program, run_linear_passes
from torch_atalla.compiler.passes.linear.layout import merged, viewed_strides
from torch_atalla.compiler.program.ir import LinearProgram
from torch_atalla.compiler.program.vector_program import CONVERT, Step, VectorProgram
from torch_atalla.compiler.schedule.plan import plan_memory
from torch_atalla.compiler.schedule.verify_plan import verify_plan
from torch_atalla.loadable.packed import pack

warnings.filterwarnings("ignore", category=FutureWarning)


class TestPasses(TestCase):
    def test_chain_is_one_launch(self) -> None:
        x = torch.randn(4, 300)
        program = compiled(lambda m, x: torch.tanh(x * 2 + 1).relu() - x, x)
        self.assertEqual(kernels(program), ["fused"])

    def test_value_that_is_returned_is_an_output(self) -> None:
        def fn(m: Any, x: torch.Tensor) -> Any:
            y = x * 2
            return y, y.relu() + 1

        program = compiled(fn, torch.randn(5, 7))
        self.assertEqual(kernels(program), ["fused"])
        self.assertEqual(len(program.instructions[0].writes()), 2)

    def test_reader_in_between_keeps_launches_apart(self) -> None:
        def fn(m: Any, x: torch.Tensor) -> torch.Tensor:
            y = x * 2
            return (y.sum(1, keepdim=True) * 3).expand(5, 7) + y

        names = kernels(compiled(fn, torch.randn(5, 7)))
        self.assertEqual([name for name in names if name.startswith("reduce")], ["reduce.sum"])
        self.assertGreater(len(names), 2)

    def test_product_ends_with_bias_activation_and_residual(self) -> None:
        linear = nn.Linear(64, 64)
        program = compiled(lambda m, x: x + F.gelu(m.linear(x)) * 2, torch.randn(9, 64), linear=linear)
        self.assertEqual(kernels(program), ["gemm_packed"])

    def test_gate_of_two_products(self) -> None:
        def fn(m: Any, x: torch.Tensor) -> torch.Tensor:
            return F.silu(m.gate(x)) * m.up(x)

        layers = {"gate": nn.Linear(64, 96, bias=False), "up": nn.Linear(64, 96, bias=False)}
        self.assertEqual(kernels(compiled(fn, torch.randn(9, 64), **layers)), ["gemm_packed", "gemm_packed"])

    def test_one_row_is_packed_only_where_rounding_may_change(self) -> None:
        args, linear = torch.randn(1, 64), nn.Linear(64, 64)
        self.assertEqual(kernels(compiled(lambda m, x: m.linear(x), args, linear=linear)), ["gemm"])
        program = compiled(lambda m, x: m.linear(x), args, linear=linear, optimize="fast")
        self.assertEqual(kernels(program), ["gemm_packed"])

    def test_tied_embedding_is_stored_once(self) -> None:
        embedding = nn.Embedding(96, 32)

        def fn(m: Any, ids: torch.Tensor) -> torch.Tensor:
            return F.linear(m.embedding(ids).relu(), m.embedding.weight)

        program = compiled(fn, torch.randint(0, 96, (2, 5)), embedding=embedding)
        self.assertEqual(kernels(program), ["index_select_packed", "pointwise.relu", "gemm_packed"])
        stored = sum(buffer.nbytes for buffer in program.buffers if buffer.tensor is not None)
        self.assertEqual(stored, 96 * 32 * 4)

    def test_weight_that_is_read_otherwise_stays(self) -> None:
        linear = nn.Linear(64, 64, bias=False)
        program = compiled(lambda m, x: m.linear(x) + m.linear.weight.sum(), torch.randn(9, 64), linear=linear)
        self.assertNotIn("gemm_packed", kernels(program))

    def test_batch_norm_folds_into_convolution(self) -> None:
        layers = nn.Sequential(nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU())
        layers[1].running_mean.normal_()
        layers[1].running_var.uniform_(0.5, 2)
        x = torch.randn(2, 3, 9, 9)
        plain = compile_program(layers.eval(), (x,), fallback="error", optimize="none")
        self.assertEqual(kernels(plain.program), ["convolution", "channel_norm.apply", "pointwise.relu"])
        exact = compile_program(layers, (x,), fallback="error")
        self.assertEqual(kernels(exact.program), ["convolution_fused"])
        fast = compile_program(layers, (x,), fallback="error", optimize="fast")
        self.assertNotIn("channel_norm.apply", kernels(fast.program))
        (found,) = run_program(fast.program, fast.plan, [x])
        self.assertEqual(found, layers(x), rtol=1e-4, atol=1e-5)

    def test_batch_norm_becomes_arithmetic(self) -> None:
        """Where the kernel adds no bias it still adds 0, and where it stores 16 bits it rounds once: it stays."""
        x = torch.randn(2, 4, 5, 5)
        for norm, split in (
            (nn.BatchNorm2d(4), True),
            (nn.BatchNorm2d(4, affine=False), False),
            (nn.BatchNorm2d(4).half(), False),
            (nn.BatchNorm2d(4).double(), False),
        ):
            norm.running_mean.normal_()
            norm.running_var.uniform_(0.5, 2)
            given = x.to(norm.running_mean.dtype)
            result = compile_program(norm.eval(), (given,), fallback="error")
            self.assertEqual("channel_norm.apply" not in kernels(result.program), split)
            self.assertEqual(run_program(result.program, result.plan, [given])[0], norm(given), rtol=2e-3, atol=1e-3)

    def test_convolution_ends_with_batch_norm_activation_and_residual(self) -> None:
        torch.manual_seed(0)
        convolution = nn.Conv2d(8, 8, 3, padding=1, groups=2)

        def fn(m: Any, x: torch.Tensor) -> Any:
            y = m.convolution(x) * 0.5
            return torch.relu(y + x), y

        x = torch.randn(2, 8, 7, 9)
        module = Fn(fn, convolution=convolution)
        result = compile_program(module, (x,), fallback="error")
        self.assertEqual(kernels(result.program), ["convolution_fused"])
        self.assertEqual(run_program(result.program, result.plan, [x]), list(module(x)), rtol=1e-4, atol=1e-5)

    def test_packed_convolution_ends_with_batch_norm_activation_and_residual(self) -> None:
        torch.manual_seed(0)
        body = nn.Sequential(nn.Conv2d(32, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32))
        x = torch.randn(2, 32, 7, 9)
        module = Fn(lambda m, x: torch.relu(m.body(x) + x), body=body).eval()
        result = compile_program(module, (x,), fallback="error", optimize="fast")
        self.assertEqual(kernels(result.program), ["convolution_packed"])
        self.assertEqual(run_program(result.program, result.plan, [x]), [module(x)], rtol=1e-4, atol=1e-5)

    def test_convolutions_that_stay_as_they_are(self) -> None:
        x = torch.randn(1, 32, 9, 9)
        last = x.to(memory_format=torch.channels_last)
        for convolution, image in (
            (nn.Conv2d(32, 64, 3, groups=2), x),
            (nn.Conv2d(32, 40, 3), x),  # a fifth of the panels would be padding
            (nn.Conv2d(32, 64, 3).to(memory_format=torch.channels_last), last),
            (nn.Conv2d(32, 64, 3).to(torch.bfloat16), x.bfloat16()),
        ):
            program = compiled(lambda m, x: m.convolution(x), image, convolution=convolution)
            self.assertEqual(kernels(program), ["convolution"])

    def test_unknown_level_is_refused(self) -> None:
        with self.assertRaisesRegex(ExportError, 'expected "none", "exact" or "fast"'):
            compile_program(nn.ReLU(), (torch.ones(2),), optimize="faster")

    def test_invariants_hold_after_every_pass(self) -> None:
        for module, args in (models.gpt2(), models.seed_models()["vit_block"]):
            program = compile_program(module, args, optimize="none").program
            check_program(program)
            before = str(program)

            def observe(name: str, result: LinearProgram) -> None:
                check_program(result)
                verify_plan(result, plan_memory(result))

            _, results = run_linear_passes(program, observe=observe)
            self.assertEqual(str(program), before)  # no pass changes what it is given
            self.assertEqual(len(results), 6)

    def test_check_finds_broken_programs(self) -> None:
        program = compiled(lambda m, x: torch.tanh(x * 2).relu() - x, torch.randn(4, 300))
        program.segments.append(0)
        with self.assertRaisesRegex(ExportError, "segment numbers"):
            check_program(program)

    def test_dump(self) -> None:
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            compile_program(nn.Linear(64, 64), (torch.randn(3, 64),), dump=folder)
            names = sorted(path.name for path in Path(folder).iterdir())
            text = "\n".join(names)
            for part in ("capture.graph.svg", "pack_weights.program.txt", "plan.svg", "remove_dead_code.graph.txt"):
                self.assertIn(part, text)
            for path in Path(folder).glob("*.svg"):
                self.assertTrue(path.read_text().startswith("<svg"))


class TestLayout(TestCase):
    def test_views_are_upstreams(self) -> None:
        """Every view that is found is what Tensor.view gives; where there is none, that raises."""
        shapes = [(2, 3, 4), (6, 4), (24,), (2, 12), (1, 24), (4, 6), (3, 8), (2, 1, 3, 4)]
        bases = [torch.arange(24).view(2, 3, 4), torch.arange(24).view(4, 6).t(), torch.arange(4).expand(6, 4)]
        bases += [torch.arange(6)[:, None].expand(6, 4), torch.arange(48).view(6, 8)[:, :4], torch.arange(1).expand(24)]
        for base, shape in itertools.product(bases, shapes):
            strides = viewed_strides(tuple(base.shape), base.stride(), shape)
            try:
                expected = base.view(shape)
            except RuntimeError:
                self.assertIsNone(strides)
                continue
            self.assertIsNotNone(strides)
            self.assertEqual(base.as_strided(shape, strides), expected)

    def test_merged_dimensions(self) -> None:
        self.assertEqual(merged((2, 1, 3, 4), (12, 99, 4, 1)), ((24, 1),))
        self.assertEqual(merged((2, 3), (1, 2)), ((2, 1), (3, 2)))
        self.assertEqual(merged((6, 4), (0, 0)), ((24, 0),))

    def test_pack(self) -> None:
        matrix = torch.randn(70, 5)
        packed = pack(matrix)
        self.assertEqual(packed.shape, (3, 5, 32))
        self.assertEqual(packed.transpose(1, 2).reshape(-1, 5)[:70], matrix)
        self.assertEqual(packed[2, :, 6:], torch.zeros(5, 26))

    def test_buffers_run_out(self) -> None:
        double = torch.float64
        steps = [Step(CONVERT, (0,), double) for _ in range(13)]
        steps += [Step("pointwise.add", (k, k + 1), double) for k in range(1, 13)]
        self.assertIsNone(VectorProgram((torch.float32,), tuple(steps), (len(steps),)).buffers())
