# SPDX-License-Identifier: BSD-3-Clause
"""Kernels of Liger-Kernel as they come from PyPI, forward and backward, against PyTorch on the CPU."""

import pytest
import torch
import torch.nn.functional as F
from torch.testing._internal.common_utils import TestCase, instantiate_parametrized_tests, parametrize, run_tests

pytest.importorskip("triton", reason="the extra torch_atalla[triton] is not installed")
pytest.importorskip("liger_kernel", reason="liger-kernel is not installed")

DEVICE = "atalla"
WIDTH = 128


def _sparsemax(x):
    ordered = x.sort(-1, descending=True).values
    places = torch.arange(1, x.shape[-1] + 1)
    chosen = (1 + places * ordered) > ordered.cumsum(-1)
    count = chosen.sum(-1, keepdim=True)
    return (x - (ordered.cumsum(-1).gather(-1, count - 1) - 1) / count).clamp(min=0)


def _jensen_shannon(x, y):
    middle = ((x.exp() + y.exp()) / 2).log()
    terms = (F.kl_div(middle, p, reduction="sum", log_target=True) for p in (y, x))
    return sum(terms) / 2 / x.shape[0]


def _rotated(x, cos, sin):
    half = x.shape[-1] // 2
    return x * cos.unsqueeze(1) + torch.cat((-x[..., half:], x[..., :half]), -1) * sin.unsqueeze(1)


def _angles():
    half = torch.randn(1, 16, 16)
    return torch.cat((half, half), -1).cos(), torch.cat((half, half), -1).sin()


def x(*sizes):
    return torch.randn(*sizes)


# Function, further arguments; reference; inputs. Inputs of a floating dtype get gradients.
CASES = {
    "swiglu.LigerSiLUMulFunction": ((), lambda a, b: F.silu(a) * b, lambda: [x(4, 16, WIDTH), x(4, 16, WIDTH)]),
    "geglu.LigerGELUMulFunction": (
        (), lambda a, b: F.gelu(a, approximate="tanh") * b, lambda: [x(4, 16, WIDTH), x(4, 16, WIDTH)],
    ),
    "rms_norm.LigerRMSNormFunction": (
        (1e-6,), lambda a, w: F.rms_norm(a, (WIDTH,), w, 1e-6), lambda: [x(4, 16, WIDTH), x(WIDTH)],
    ),
    "layer_norm.LigerLayerNormFunction": (
        (1e-6,), lambda a, w, b: F.layer_norm(a, (WIDTH,), w, b, 1e-6), lambda: [x(4, 16, WIDTH), x(WIDTH), x(WIDTH)],
    ),
    "fused_add_rms_norm.LigerFusedAddRMSNormFunction": (
        (1e-6,), lambda a, r, w: (F.rms_norm(a + r, (WIDTH,), w, 1e-6), a + r),
        lambda: [x(4, 16, WIDTH), x(4, 16, WIDTH), x(WIDTH)],
    ),
    "softmax.LigerSoftmaxFunction": ((), lambda a: a.softmax(-1), lambda: [x(4, 16, WIDTH)]),
    "sparsemax.LigerSparsemaxFunction": ((-1,), _sparsemax, lambda: [x(4, 16, WIDTH)]),
    "relu_squared.LigerReLUSquaredFunction": ((), lambda a: F.relu(a) ** 2, lambda: [x(4, 16, WIDTH)]),
    "cross_entropy.LigerCrossEntropyFunction": (
        (None, -100, 0.0, 0.0, "mean", None, False), F.cross_entropy, lambda: [x(64, 1000), torch.arange(64) * 7],
    ),
    "fused_linear_cross_entropy.LigerFusedLinearCrossEntropyFunction": (
        (), lambda a, w, t: F.cross_entropy(a @ w.T, t),
        lambda: [x(64, WIDTH), x(1000, WIDTH) * 0.05, torch.arange(64) * 7],
    ),
    "kl_div.LigerKLDivLossFunction": (
        ("batchmean", False, 1e-10), lambda a, b: F.kl_div(a, b, reduction="batchmean"),
        lambda: [x(32, 500).log_softmax(-1), x(32, 500).softmax(-1)],
    ),
    "jsd.LigerJSDFunction": ((), _jensen_shannon, lambda: [x(32, 500).log_softmax(-1), x(32, 500).log_softmax(-1)]),
    "rope.LigerRopeFunction": (
        (), lambda q, k, cos, sin: (_rotated(q, cos, sin), _rotated(k, cos, sin)),
        lambda: [x(2, 4, 16, 32), x(2, 2, 16, 32), *_angles()],
    ),
}  # fmt: skip
WITHOUT_GRADIENT = {"kl_div": 1, "jsd": 1, "rope": 2}  # inputs from this one on


class TestLiger(TestCase):
    @parametrize("name", sorted(CASES))
    def test_equals_pytorch(self, name):
        import importlib

        module, _, function = name.partition(".")
        more, reference, make = CASES[name]
        torch.manual_seed(0)
        inputs = make()
        limit = WITHOUT_GRADIENT.get(module, len(inputs))
        leaves = [t.requires_grad_(t.is_floating_point() and i < limit) for i, t in enumerate(inputs)]
        moved = [t.detach().to(DEVICE).requires_grad_(t.requires_grad) for t in leaves]
        apply = getattr(importlib.import_module(f"liger_kernel.ops.{module}"), function).apply
        expected, found = reference(*leaves), apply(*moved, *more)
        expected = expected if isinstance(expected, tuple) else (expected,)
        found = [t for t in (found if isinstance(found, tuple) else (found,)) if t is not None][: len(expected)]
        weights = [torch.randn_like(t) for t in expected]
        for e, f in zip(expected, found, strict=True):
            self.assertEqual(f.detach().cpu(), e.detach(), atol=1e-5, rtol=1e-5)
        sum((e * w).sum() for e, w in zip(expected, weights, strict=True)).backward()
        sum((f * w.to(DEVICE)).sum() for f, w in zip(found, weights, strict=True)).backward()
        for leaf, tensor in zip(leaves, moved, strict=True):
            if leaf.requires_grad:
                self.assertEqual(tensor.grad.cpu(), leaf.grad, atol=1e-4, rtol=1e-4)

    def test_count(self):
        self.assertGreaterEqual(len(CASES), 13)


instantiate_parametrized_tests(TestLiger)

if __name__ == "__main__":
    run_tests()
