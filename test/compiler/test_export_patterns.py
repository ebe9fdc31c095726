# SPDX-License-Identifier: BSD-3-Clause
"""Pattern passes: which spellings of attention and norms become one launch, and which must stay as they are."""

from __future__ import annotations

import importlib.util
import math
import tempfile
import unittest
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import models
import torch
from export_suite import Fn, kernels
from launch_interpreter import run_program
from torch import nn
from torch.testing._internal.common_utils import TestCase, instantiate_parametrized_tests, parametrize

import torch_atalla
from torch_atalla.compiler import compile_program

warnings.filterwarnings("ignore", category=FutureWarning)

B, H, L, S, E = 2, 4, 9, 7, 8
LOWEST = torch.finfo(torch.float32).min
HIDDEN = torch.rand(B, 1, L, S).gt(0.7).index_fill(3, torch.tensor(0), False)  # key 0 is seen by all
CAUSAL = torch.ones(L, L, dtype=torch.bool).tril()


def four(keys: int = S, heads: int = H, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(0)
    q = torch.randn(B, H, L, E)
    return tuple(x.to(dtype) for x in (q, torch.randn(B, heads, keys, E), torch.randn(B, heads, keys, E + 1)))


def scores(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])


def repeat(x: torch.Tensor, times: int) -> torch.Tensor:
    b, h, s, e = x.shape
    return x[:, :, None].expand(b, h, times, s, e).reshape(b, h * times, s, e)


def merged(m: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Heads in the batch for the products, apart for the mask (OPT, Bart)."""
    q3, k3, v3 = (x.reshape(B * H, -1, x.shape[-1]) for x in (q * E**-0.5, k, v))
    found = torch.bmm(q3, k3.transpose(1, 2)).view(B, H, L, S).masked_fill(HIDDEN, LOWEST).view(B * H, L, S)
    context = torch.bmm(torch.nn.functional.dropout(found.softmax(-1), 0.1, m.training), v3)
    return context.view(B, H, L, E + 1).transpose(1, 2).reshape(B, L, -1)


def upcast(m: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return torch.softmax(scores(q, k) + m.bias, -1, dtype=torch.float32).to(q.dtype) @ v


BIAS = torch.randn(1, H, L, S)
WITH_MASK = torch.tensor(LOWEST)

ATTENTION: dict[str, tuple[Callable, tuple]] = {
    "plain": (lambda m, q, k, v: scores(q, k).softmax(-1) @ v, four()),
    "factor": (lambda m, q, k, v: torch.matmul(q, k.transpose(2, 3)).mul(0.3).softmax(dim=3).matmul(v), four()),
    "scaled query": (lambda m, q, k, v: torch.softmax((q * 0.3) @ k.mT, -1) @ v, four()),
    "tensor scale": (lambda m, q, k, v: (q @ k.mT / torch.tensor(8.0).sqrt()).softmax(-1) @ v, four()),
    "mask input": (
        lambda m, q, k, v, mask: (scores(q, k) + (1.0 - mask) * LOWEST).softmax(-1) @ v,
        (*four(), (~HIDDEN).float()),
    ),
    "masked_fill": (lambda m, q, k, v: scores(q, k).masked_fill(HIDDEN, -math.inf).softmax(-1) @ v, four()),
    "masked_fill input": (
        lambda m, q, k, v, hidden: scores(q, k).masked_fill(hidden, LOWEST).softmax(-1) @ v,
        (*four(), HIDDEN),
    ),
    "where": (
        lambda m, q, k, v, hidden: torch.where(~hidden, scores(q, k), -math.inf).softmax(-1) @ v,
        (*four(), HIDDEN),
    ),
    "where and mask": (
        lambda m, q, k, v: (torch.where(HIDDEN, WITH_MASK, scores(q, k)) + m.bias).softmax(-1) @ v,
        four(),
    ),
    "groups": (lambda m, q, k, v: scores(q, repeat(k, 2)).softmax(-1) @ repeat(v, 2), four(heads=2)),
    "merged heads": (merged, four()),
    "einsum": (
        lambda m, q, k, v: torch.einsum(
            "bhls,bhse->bhle", (torch.einsum("bhld,bhsd->bhls", q, k) * 0.3).softmax(-1), v
        ),
        four(),
    ),
    "rank 3": (lambda m, q, k, v: (torch.bmm(q, k.mT) * 0.3).softmax(-1).bmm(v), tuple(x[0] for x in four())),
    "rank 2": (lambda m, q, k, v: scores(q, k).softmax(-1) @ v, tuple(x[0, 0] for x in four())),
    "upcast": (upcast, four(dtype=torch.bfloat16)),
    "upcast scores": (
        lambda m, q, k, v: (scores(q, k).float() + m.bias).softmax(-1).type_as(q) @ v,
        four(dtype=torch.float16),
    ),
    "double": (lambda m, q, k, v: (scores(q, k) + m.bias).softmax(-1) @ v, four(dtype=torch.float64)),
}

CAUSAL_FORMS: dict[str, Callable] = {
    "where": lambda m, q, k, v: torch.where(CAUSAL, scores(q, k), WITH_MASK).softmax(-1) @ v,
    "fill": lambda m, q, k, v: scores(q, k).masked_fill(torch.ones(L, L).triu(1).bool(), -math.inf).softmax(-1) @ v,
    "add": lambda m, q, k, v: (scores(q, k) + torch.full((L, L), -math.inf).triu(1)).softmax(-1) @ v,
}


def both(m: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Any:
    weights = scores(q, k).softmax(-1)
    return weights @ v, weights


def twice(m: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    found = scores(q, k)
    return found.softmax(-1) @ v + found.sum()


# What is no attention, or not what the kernel computes.
OTHERS: dict[str, tuple[Callable, tuple]] = {
    "weights are returned": (both, four()),
    "scores are read": (twice, four()),
    "softmax over queries": (lambda m, q, k, v: scores(q, k).softmax(-2) @ v, four()),
    "mask is scaled": (lambda m, q, k, v: ((q @ k.mT + m.bias) * 0.5).softmax(-1) @ v, four()),
    "something in between": (lambda m, q, k, v: scores(q, k).softmax(-1).square() @ v, four()),
    "scores of another kind": (lambda m, q, k, v: torch.tanh(scores(q, k)).softmax(-1) @ v, four()),
    "weights stand behind": (lambda m, q, k, v: v.mT @ scores(q, k).softmax(-1).mT, four()),
    "finite fill": (lambda m, q, k, v: scores(q, k).masked_fill(HIDDEN, -100.0).softmax(-1) @ v, four()),
    "fill over a mask": (
        lambda m, q, k, v: (scores(q, k) + m.bias).masked_fill(HIDDEN, LOWEST).softmax(-1) @ v,
        four(),
    ),
    "heads change places": (
        lambda m, q, k, v: scores(q, k).softmax(-1).transpose(0, 1).reshape(B * H, L, S).bmm(v.flatten(0, 1)),
        four(),
    ),
    "scale is an input": (lambda m, q, k, v, s: (q @ k.mT * s).softmax(-1) @ v, (*four(), torch.tensor(0.5))),
    "half sums, float values": (
        lambda m, q, k, v: scores(q, k).float().softmax(-1) @ v,
        (*four(dtype=torch.bfloat16)[:2], four()[2]),
    ),
}


class RMSNorm(nn.Module):
    """As Llama's and T5's: the statistics in float32, the weight after the cast back."""

    def __init__(self, width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        dtype = x.dtype
        x = x.to(torch.float32)
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * x.to(dtype)


W = 24


def by_parts(m: Any, x: torch.Tensor) -> torch.Tensor:
    mean = x.mean(-1, keepdim=True)
    variance = (x - mean).pow(2).mean(-1, keepdim=True)
    return (x - mean) / torch.sqrt(variance + 1e-5) * m.weight + m.shift


def t5(m: Any, x: torch.Tensor) -> torch.Tensor:
    variance = x.to(torch.float32).pow(2).mean(-1, keepdim=True)
    return m.weight * (x * torch.rsqrt(variance + 1e-6)).to(x.dtype)


def unit(m: Any, x: torch.Tensor) -> torch.Tensor:
    return x * (x * x).mean(-1, keepdim=True).add(1e-6).pow(-0.5)


def pair(m: Any, x: torch.Tensor) -> torch.Tensor:
    variance, mean = torch.var_mean(x, -1, unbiased=False, keepdim=True)
    return (x - mean) * (variance + 1e-5).rsqrt()


X = torch.randn(3, 5, W) * 2 + 1

NORMS: dict[str, tuple[Callable, torch.Tensor, str]] = {
    "by parts": (by_parts, X, "layer_norm"),
    "var": (
        lambda m, x: (x - x.mean(-1, True)) * torch.rsqrt(x.var(-1, unbiased=False, keepdim=True) + 1e-5) * m.weight,
        X,
        "layer_norm",
    ),
    "var_mean": (pair, X, "layer_norm"),
    "layer norm of bfloat16": (lambda m, x: by_parts(m, x.float()).to(x.dtype), X.bfloat16(), "layer_norm"),
    "llama": (lambda m, x: m.norm(x), X, "rms_norm"),
    "llama, bfloat16": (lambda m, x: m.norm(x), X.bfloat16(), "rms_norm"),
    "t5": (t5, X, "rms_norm"),
    "t5, float16": (t5, X.half(), "rms_norm"),
    "unit": (unit, X, "rms_norm"),
    "gemma": (lambda m, x: x * torch.rsqrt(x.pow(2).mean(-1, True) + 1e-6) * (1.0 + m.weight), X, "rms_norm"),
    "nn.RMSNorm": (lambda m, x: m.rms(x), X, "rms_norm"),
    "double": (unit, X.double(), "rms_norm"),
}


def root_is_read(m: Any, x: torch.Tensor) -> Any:
    root = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
    return x * root, root


def deviation(m: Any, x: torch.Tensor) -> torch.Tensor:
    return (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-6)


OTHER_NORMS: dict[str, tuple[Callable, torch.Tensor]] = {
    "the root is read": (root_is_read, X),
    "unbiased": (lambda m, x: (x - x.mean(-1, True)) * (x.var(-1, keepdim=True) + 1e-5).rsqrt(), X),
    "eps outside of the root": (deviation, X),
    "another dimension": (lambda m, x: x * (x.pow(2).mean(1, True) + 1e-6).rsqrt(), X),
    "another power": (lambda m, x: x * (x.pow(4).mean(-1, True) + 1e-6).rsqrt(), X),
    "of something else": (lambda m, x: x.exp() * (x.pow(2).mean(-1, True) + 1e-6).rsqrt(), X),
    "sum": (lambda m, x: x * (x.pow(2).sum(-1, True) + 1e-6).rsqrt(), X),
    "another mean": (lambda m, x: (x - x.mean()) * (x.var(-1, unbiased=False, keepdim=True) + 1e-5).rsqrt(), X),
    "eps is an input": (lambda m, x: x * (x.pow(2).mean(-1, True) + x[0, 0, 0]).rsqrt(), X.abs()),
}


def rotated(x: torch.Tensor, sign: int = 1) -> torch.Tensor:
    x1, x2 = x[..., : W // 2], x[..., W // 2 :]
    return torch.cat([-x2, x1] if sign > 0 else [x2, -x1], -1)


def rotary_and_turned(m: Any, x: torch.Tensor) -> Any:
    turned = rotated(x)
    return x * m.weight + turned * m.shift, turned


ROTARY: dict[str, Callable] = {
    "llama": lambda m, x: (x * m.weight) + (rotated(x) * m.shift),
    "other order": lambda m, x: m.shift * rotated(x) + m.weight * x,
    "chunks": lambda m, x: x * m.weight + torch.cat([-x[..., W // 2 :], x[..., : W // 2]], -1) * m.shift,
}

NOT_ROTARY: dict[str, Callable] = {
    "turned the other way": lambda m, x: x * m.weight + rotated(x, -1) * m.shift,
    "turned is returned": rotary_and_turned,
    "of something else": lambda m, x: (x + 1) * m.weight + rotated(x) * m.shift,
    "unequal parts": lambda m, x: x * m.weight + torch.cat([-x[..., 8:], x[..., :8]], -1) * m.shift,
    "one factor": lambda m, x: x * m.weight + rotated(x) * m.shift[0],
}


class TestPatterns(TestCase):
    def compare(self, fn: Callable, args: tuple, optimize: str = "fast") -> Any:
        torch.manual_seed(0)
        x = args[0]
        members = {"bias": BIAS.to(x.dtype), "weight": torch.randn(W).to(x.dtype), "shift": torch.randn(W).to(x.dtype)}
        module = Fn(fn, norm=RMSNorm(W).to(x.dtype), rms=nn.RMSNorm(W, 1e-6).to(x.dtype), **members).eval()
        result = compile_program(module, args, fallback="error", optimize=optimize)
        found = run_program(result.program, result.plan, list(args))
        expected = torch.utils._pytree.tree_leaves(module(*args))
        rounding = {torch.bfloat16: 2e-2, torch.float16: 4e-3, torch.float64: 1e-12}.get(x.dtype, 2e-6)
        for a, b in zip(found, expected, strict=True):
            self.assertEqual(a, b, rtol=rounding, atol=rounding * max(1.0, float(b.abs().max())))
        return result

    @parametrize("name", list(ATTENTION))
    def test_attention(self, name: str) -> None:
        names = kernels(self.compare(*ATTENTION[name]).program)
        self.assertEqual(names.count("attention"), 1, msg=str(names))
        self.assertEqual([n for n in names if n.startswith(("gemm", "softmax"))], [])

    @parametrize("name", list(CAUSAL_FORMS))
    def test_causal_mask_is_a_flag(self, name: str) -> None:
        (launch,) = self.compare(CAUSAL_FORMS[name], four(keys=L)).program.instructions
        self.assertEqual(launch.kernel, "attention")
        self.assertEqual((launch.parameter("causal"), launch.inputs[3]), (1, None))

    def test_constant_that_hides_nothing_is_dropped(self) -> None:
        def fn(m: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
            return (scores(q, k) + torch.zeros(B, 1, L, S)).softmax(-1) @ v

        (launch,) = self.compare(fn, four()).program.instructions
        self.assertEqual((launch.parameter("causal"), launch.inputs[3]), (0, None))

    def test_groups_read_each_key_once(self) -> None:
        (launch,) = self.compare(*ATTENTION["groups"]).program.instructions
        self.assertEqual([operand.sizes[1] for operand in launch.inputs[:3]], [H, 2, 2])

    @parametrize("name", list(OTHERS))
    def test_other_than_attention(self, name: str) -> None:
        self.assertNotIn("attention", kernels(self.compare(*OTHERS[name]).program))

    @parametrize("name", list(NORMS))
    def test_norms(self, name: str) -> None:
        fn, x, kernel = NORMS[name]
        self.assertEqual(kernels(self.compare(fn, (x,)).program), [kernel])

    @parametrize("name", list(OTHER_NORMS))
    def test_other_than_norms(self, name: str) -> None:
        fn, x = OTHER_NORMS[name]
        names = kernels(self.compare(fn, (x,)).program)
        self.assertFalse({"layer_norm", "rms_norm"} & set(names), msg=str(names))

    @parametrize("name", list(ROTARY))
    def test_rotary(self, name: str) -> None:
        """Each half is one chain that ends in its place."""
        program = self.compare(ROTARY[name], (X,), optimize="exact").program
        self.assertEqual(kernels(program), ["fused", "fused"])
        self.assertEqual({inst.writes()[0].sizes[-1] for inst in program.instructions}, {W // 2})

    @parametrize("name", list(NOT_ROTARY))
    def test_other_than_rotary(self, name: str) -> None:
        names = [
            result.nodes for result in self.compare(NOT_ROTARY[name], (X,)).passes if result.name == "split_rotary"
        ]
        self.assertEqual(names, [()])

    def test_exact_keeps_the_parts(self) -> None:
        self.assertNotIn("attention", kernels(self.compare(*ATTENTION["plain"], optimize="exact").program))
        self.assertNotIn("rms_norm", kernels(self.compare(unit, (X,), optimize="exact").program))


# Launches of attention and of norms in two layers.
MODELS = {
    "gpt2": {"attention": 2, "layer_norm": 5},
    "llama": {"attention": 2, "rms_norm": 5},
    "t5": {"attention": 6, "rms_norm": 12},
    "bert": {"attention": 2, "layer_norm": 5},
    "vit": {"attention": 2, "layer_norm": 5},
}


@unittest.skipUnless(importlib.util.find_spec("transformers"), "needs requirements-demo.txt")
class TestTransformers(TestCase):
    @parametrize("name", list(MODELS))
    def test_model(self, name: str) -> None:
        """On the device, against eager mode on it."""
        model, args = models.spelled_out()[name]
        with tempfile.TemporaryDirectory() as folder, torch.no_grad():
            path = Path(folder) / "model.atl"
            report = torch_atalla.save_loadable(model, path, args=args, fallback="error", optimize="fast")
            device = [x.to("atalla") for x in args]
            found = torch_atalla.load_loadable(path, device="atalla")(*device).cpu()
            expected = model.to("atalla")(*device).cpu()
        self.assertEqual(found, expected, rtol=1e-4, atol=1e-4 * float(expected.abs().max()))
        self.assertEqual({kernel: report.kernels.get(kernel) for kernel in MODELS[name]}, MODELS[name])
        self.assertFalse({"softmax", "reduce.mean"} & set(report.kernels), report.kernels)


instantiate_parametrized_tests(TestPatterns)
instantiate_parametrized_tests(TestTransformers)
