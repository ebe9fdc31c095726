# SPDX-License-Identifier: BSD-3-Clause
"""Reductions that compute their elements: what they take in, what they must leave, and the bits of eager mode."""

from __future__ import annotations

import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from export_suite import Fn, compiled, kernels
from launch_interpreter import run_program
from torch.testing._internal.common_utils import TestCase, instantiate_parametrized_tests, parametrize

import torch_atalla
from torch_atalla.compiler import compile_program
from torch_atalla.compiler.passes.linear import check_program

warnings.filterwarnings("ignore", category=FutureWarning)

X = torch.randn(6, 9, 40)

JOINED: dict[str, Callable] = {
    "rows": lambda m, x: (x * x).sum(-1),
    "rows, kept": lambda m, x: (x.tanh() - 1).mean(-1, keepdim=True),
    "all": lambda m, x: (x * 2 + 1).sigmoid().mean(),
    "last two": lambda m, x: x.abs().amax((1, 2)),
    "columns": lambda m, x: x.exp().sum(0),
    "middle": lambda m, x: (x - 0.5).amin(1),
    "product": lambda m, x: (x * 0.01 + 1).prod(2),
    "count": lambda m, x: (x > 0).sum((0, 1, 2)),
    "in double": lambda m, x: (x * x).sum(-1, dtype=torch.float64),
    "row of weights": lambda m, x: (x * x[0, 0]).sum(-1),
    "column of weights": lambda m, x: (x * x[:, :, :1]).sum(-1),
    "strided": lambda m, x: (x[:, ::2] * 2).mean(-1),
    "a value twice": lambda m, x: (x.exp() * (x.exp() + 1)).sum(-1),
}


def shared(m: Any, x: torch.Tensor) -> Any:
    y = x.exp()
    return y.sum(-1), y.amax(-1)


APART: dict[str, tuple[Callable, torch.Tensor]] = {
    "elements are returned": (lambda m, x: ((x * 2).sum(-1), x * 2), X),
    "elements are reduced twice": (shared, X),
    "short rows": (lambda m, x: (x * 2).sum(-1), torch.randn(40, 20)),
    "few columns": (lambda m, x: (x * 2).sum(0), torch.randn(40, 5)),
    "dims apart": (lambda m, x: (x * 2).sum((0, 2)), X),
    "elements not in order": (lambda m, x: (x.mT * 2).sum(-1), X),
    "nothing before": (lambda m, x: x.sum(-1), X),
    "another reduction": (lambda m, x: (x * 2).argmax(-1), X),
}


class TestJoined(TestCase):
    @parametrize("name", list(JOINED))
    def test_one_launch(self, name: str) -> None:
        result = compile_program(Fn(JOINED[name]), (X,), fallback="error")
        check_program(result.program)
        names = [kernel for kernel in kernels(result.program) if kernel != "copy"]
        self.assertEqual(names, ["reduce_fused"])
        (found,) = run_program(result.program, result.plan, [X])
        self.assertEqual(found, JOINED[name](None, X), rtol=1e-5, atol=1e-4)

    @parametrize("name", list(APART))
    def test_apart(self, name: str) -> None:
        fn, x = APART[name]
        self.assertNotIn("reduce_fused", kernels(compiled(fn, x)))

    def test_elements_that_others_read_are_made_once(self) -> None:
        """The residual is stored; its square is not."""

        def fn(m: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            z = x + y
            return z * torch.rsqrt(z.pow(2).mean(-1, keepdim=True) + 1e-6)

        program = compiled(fn, X, X)
        self.assertEqual(kernels(program), ["pointwise.add", "reduce_fused", "fused", "pointwise.mul"])
        self.assertEqual(len(program.instructions[1].program.steps), 1)

    def test_none_leaves_all(self) -> None:
        self.assertEqual(kernels(compiled(JOINED["rows"], X, optimize="none")), ["pointwise.mul", "reduce.sum"])

    def test_printed(self) -> None:
        text = str(compiled(JOINED["rows"], X))
        self.assertIn("{v1 = mul.f32 v0 v0 -> v1}", text)


def many(m: Any, x: torch.Tensor, w: torch.Tensor, c: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """No two share elements."""
    return (
        (x * w).sum(-1),
        (x * c).mean(-1, keepdim=True),
        (x * 0.5 + w).amax(-1),
        (x.abs() + 1).amin(-1),
        (x * 0.125 + 1).prod(-1),
        (x - w).mean(),
        (x * x).sum(0),
        (x + c).mean(0),
        (x.float() * 3).sum(-1, dtype=torch.float64),
        (x > w).sum(-1),
    )


SHAPES = [(1, 33), (7, 40), (3, 1000), (2, 5000), (300, 257), (70, 8), (2, 70000), (5, 37, 48), (2, 3, 4, 65)]


class TestBits(TestCase):
    @parametrize("shape", SHAPES)
    @parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
    def test_as_eager(self, shape: tuple[int, ...], dtype: torch.dtype) -> None:
        torch.manual_seed(0)
        args = (torch.randn(shape), torch.randn(shape[-1]), torch.randn(*shape[:-1], 1))
        args = tuple(x.to(dtype) for x in args)
        device = [x.to("atalla") for x in args]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.atl"
            report = torch_atalla.save_loadable(Fn(many), path, args=args, fallback="error", golden=False)
            found = torch_atalla.load_loadable(path, device="atalla")(*device)
        for number, (a, b) in enumerate(zip(found, many(None, *device), strict=True)):
            self.assertEqual(a.cpu(), b.cpu(), rtol=0, atol=0, equal_nan=True, msg=f"result {number}")
        joined = Counter(report.kernels)["reduce_fused"]
        self.assertGreaterEqual(joined, 1 if shape[-1] <= 32 else 8)


instantiate_parametrized_tests(TestJoined)
instantiate_parametrized_tests(TestBits)
