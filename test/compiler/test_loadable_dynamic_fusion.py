# SPDX-License-Identifier: BSD-3-Clause
"""Joined launches and packed weights where sizes follow the call: eager mode's bits at, below and beyond the bounds."""

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.export import Dim
from torch.testing._internal.common_utils import TestCase

import torch_atalla
from torch_atalla.compiler.passes.linear.layout import merged, viewed_strides
from torch_atalla.compiler.program.ir import contiguous_strides
from torch_atalla.compiler.program.sizes import Size
from torch_atalla.compiler.targets.functional.pipeline import Compiled, compile_program


class Feed(nn.Module):
    """Products with epilogues, a residual, and a chain that starts at a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down, self.norm = nn.Linear(64, 128), nn.Linear(128, 64), nn.LayerNorm(64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.down(nn.functional.gelu(self.up(x))) + x
        return self.norm(y) * torch.sigmoid(y)


class Gate(nn.Module):
    """A chain over two inputs whose sizes are one symbol and a multiple of it."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        half = y.view(x.shape[0], 2, x.shape[1])
        return torch.tanh(x * half[:, 0]) + nn.functional.silu(half[:, 1]) * x.shape[1]


def kernels(compiled: Compiled) -> list[str]:
    return [getattr(inst, "kernel", "host") for inst in compiled.program.instructions]


def exported(module: nn.Module, args: tuple, *shapes: dict) -> torch.export.ExportedProgram:
    return torch.export.export(module.eval(), args, dynamic_shapes=shapes)


class TestDynamicFusion(TestCase):
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path):
        self.path = tmp_path / "model.atl"

    def compare(self, program: torch.export.ExportedProgram, module: nn.Module, calls: list[tuple]) -> None:
        torch_atalla.save_loadable(program, self.path, fallback="error")
        loaded, module = torch_atalla.load_loadable(self.path), module.to("atalla")
        for args in calls:
            inputs = [arg.to("atalla") for arg in args]
            with torch.no_grad():
                self.assertEqual(loaded(*inputs).cpu(), module(*inputs).cpu(), rtol=0, atol=0)
        module.to("cpu")
        self.loaded = loaded

    def rows(self, *sizes: tuple[int, int]) -> list[tuple]:
        return [(torch.randn(b, t, 64),) for b, t in sizes]

    def test_bounded(self):
        module = Feed()
        shapes = {0: Dim("b", min=2, max=9), 1: Dim("t", min=3, max=12)}
        program = exported(module, (torch.randn(3, 5, 64),), shapes)
        compiled = compile_program(program, fallback="error")
        self.assertEqual(kernels(compiled), ["gemm_packed", "gemm_packed", "layer_norm", "fused"])
        plain = compile_program(program, fallback="error", optimize="none")
        self.assertGreater(len(kernels(plain)), 4)
        self.assertLess(compiled.plan.unplanned_bytes, plain.plan.unplanned_bytes)
        self.compare(program, module, self.rows((2, 3), (9, 12), (4, 7), (9, 3), (2, 12), (4, 7)))
        for sizes, text in (
            ((10, 5, 64), "dimension 0 is 10"),
            ((3, 13, 64), "is 13"),
            ((1, 5, 64), "is 1, expected 2"),
        ):
            with self.assertRaisesRegex(ValueError, text):
                self.loaded(torch.randn(sizes, device="atalla"))

    def test_unbounded(self):
        module = Feed()
        program = exported(module, (torch.randn(3, 5, 64),), {0: Dim("b", min=2), 1: Dim("t", min=3)})
        found = kernels(compile_program(program, fallback="error"))
        self.assertEqual(found, ["gemm_packed", "gemm_packed", "layer_norm", "fused"])
        self.compare(program, module, self.rows((2, 3), (3, 5), (20, 33), (2, 64), (3, 5)))

    def test_a_product_that_may_have_one_row_keeps_its_order_of_summation(self):
        module = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64))
        for least, kernel in ((1, "gemm"), (2, "gemm_packed")):
            program = exported(module, (torch.randn(5, 64),), {0: Dim("n", min=least, max=16)})
            self.assertIn(kernel, kernels(compile_program(program, fallback="error")))
            self.compare(program, module, [(torch.randn(n, 64),) for n in (least, 16, 7, least)])
        fast = compile_program(program, fallback="error", optimize="fast")
        self.assertNotIn("gemm", kernels(fast))

    def test_sizes_that_are_multiples(self):
        n = Dim("n", min=2, max=20)
        program = exported(Gate(), (torch.randn(4, 6), torch.randn(4, 12)), {1: n}, {1: 2 * n})
        self.assertEqual(kernels(compile_program(program, fallback="error")), ["fused"])
        calls = [(torch.randn(4, k), torch.randn(4, 2 * k)) for k in (2, 20, 7, 2)]
        self.compare(program, Gate(), calls)
        with self.assertRaisesRegex(ValueError, "dimension 1 is 15"):
            self.loaded(torch.randn(4, 7, device="atalla"), torch.randn(4, 15, device="atalla"))

    def test_weights_in_fewer_bits(self):
        module = nn.Sequential(nn.Linear(64, 96), nn.ReLU())
        program = exported(module, (torch.randn(5, 64),), {0: Dim("n", min=2, max=40)})
        torch_atalla.save_loadable(program, self.path, fallback="error", weights="int8")
        loaded = torch_atalla.load_loadable(self.path)
        for n in (2, 40, 9):
            x = torch.randn(n, 64)
            with torch.no_grad():
                self.assertEqual(loaded(x.to("atalla")).cpu(), module(x), rtol=0.05, atol=0.05)

    def test_convolution_with_an_epilogue(self):
        module = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.SiLU())
        program = exported(module, (torch.randn(2, 3, 8, 8),), {0: Dim("n", min=1, max=5)})
        self.assertEqual(kernels(compile_program(program, fallback="error")), ["convolution_packed"])
        self.compare(program, module, [(torch.randn(n, 3, 8, 8),) for n in (1, 5, 3)])

    def test_convolution_over_images_of_any_size(self):
        module = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.SiLU())
        shape = {2: Dim("h", min=4, max=20), 3: Dim("w", min=4, max=20)}
        program = exported(module, (torch.randn(2, 3, 8, 9),), shape)
        self.assertEqual(kernels(compile_program(program, fallback="error")), ["convolution_fused"])
        self.compare(program, module, [(torch.randn(2, 3, *size),) for size in ((4, 4), (20, 20), (7, 13))])


class TestSymbolicLayouts(TestCase):
    def test_views_hold_for_all_values(self):
        import sympy

        n = Size(6, sympy.Symbol("n", integer=True, positive=True))
        strides = contiguous_strides((n, 4, 8))
        self.assertEqual(len(merged((n, 4, 8), strides)), 1)
        self.assertEqual(viewed_strides((n, 4, 8), strides, (n * 4, 8)), (8, 1))
        self.assertEqual(viewed_strides((n * 4, 8), (8, 1), (n, 4, 8)), (32, 8, 1))
        self.assertIsNone(viewed_strides((n, 8), (8, 1), (2, 3, 8)))  # right for 6 only
        self.assertIsNone(viewed_strides((n * 2, 8), (16, 1), (n * 16,)))
        self.assertIsNone(viewed_strides((12, 8), (8, 1), (n, 2, 8)))

    def test_equal_expressions_of_other_programs_keep_their_values(self):
        import sympy

        symbol = sympy.Symbol("n", integer=True, positive=True)
        for value in (6, 9):
            n = Size(value, symbol)
            ((size, stride),) = merged((n, 4), (4, 1))
            self.assertEqual((int(size), int(stride)), (4 * value, 1))
