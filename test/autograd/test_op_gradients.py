# SPDX-License-Identifier: BSD-3-Clause
"""Forward-mode AD, forward over reverse and double backward of every OpInfo and its in-place form, equal to the CPU's.

The questions are upstream's (TestFwdGradients, TestBwdGradients). Upstream compares with finite differences, which take
many evaluations. Here the CPU's derivatives by the same formulas are the reference, so one evaluation is enough, and a
difference is a kernel of the device. Upstream's switch for slow tests adds samples and complex numbers.
"""

from __future__ import annotations

import os
import unittest
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.autograd.forward_ad as fwad
from opinfo_suite import DeviceTestCase, applicable, collected, float_ops, host, samples, stale_rows
from sample_functions import as_function, is_differentiable
from torch.testing._internal.common_device_type import instantiate_device_type_tests, ops

from torch_atalla.testing.properties import incomparable

WITH_SLOW = os.environ.get("PYTORCH_TEST_WITH_SLOW") == "1"
DTYPES = (torch.float64, torch.complex128) if WITH_SLOW else (torch.float64,)
LIMIT = 8 if WITH_SLOW else 1  # samples of an op
FORWARD_LIMIT = 8 if WITH_SLOW else 2

Tensors = Sequence[torch.Tensor]


class Directions:
    """Random tensors, the same on each device."""

    def __init__(self, device: str):
        self.device, self.generator = device, torch.Generator().manual_seed(0)

    def like(self, tensors: Tensors) -> list[torch.Tensor]:
        return [
            torch.randn(x.shape, dtype=x.dtype, generator=self.generator).to(self.device)
            for x in map(torch.Tensor.detach, tensors)
        ]


def materialized(x: torch.Tensor | None) -> torch.Tensor | None:
    """Return a tangent or gradient as a tensor with memory. An efficient zero tensor has none."""
    return None if x is None else (torch.zeros_like(x.detach()) + x.detach())


def forward_ad(f: Callable[..., Any], tensors: Tensors, device: str) -> Any:
    """Return the tangents of the results, for a tangent of each tensor alone and then of all.

    With one tangent, formulas get efficient zero tensors for the others.
    """
    tangents = Directions(device).like(tensors)
    every = range(len(tensors))
    found = []
    for active in [*({k} for k in every), *([set(every)] if len(tensors) > 1 else [])]:
        with fwad.dual_level():
            given = [fwad.make_dual(x, t) if k in active else x for k, x, t in zip(every, tensors, tangents)]
            found.append([materialized(fwad.unpack_dual(out).tangent) for out in f(*given)])
    return found


def gradients(f: Callable[..., Any], tensors: Tensors, directions: Directions) -> tuple[list[Any], list[torch.Tensor]]:
    """Return the gradients of the tensors, as functions of the tensors and of the given gradients, and the latter."""
    outs = [out for out in f(*tensors) if is_differentiable(out)]
    given = [v.requires_grad_() for v in directions.like(outs)]
    return list(torch.autograd.grad(outs, tensors, given, create_graph=True, allow_unused=True)), given


def forward_over_reverse(f: Callable[..., Any], tensors: Tensors, device: str) -> Any:
    directions = Directions(device)
    with fwad.dual_level():
        leaves = [x.clone().requires_grad_() for x in tensors]
        duals = [fwad.make_dual(x, t) for x, t in zip(leaves, directions.like(leaves))]
        found, _ = gradients(f, duals, directions)
        return [None if g is None else materialized(fwad.unpack_dual(g).tangent) for g in found]


def double_backward(f: Callable[..., Any], tensors: Tensors, device: str) -> Any:
    directions = Directions(device)
    leaves = [x.clone().requires_grad_() for x in tensors]
    first, given = gradients(f, leaves, directions)
    wanted = [g for g in first if g is not None and is_differentiable(g)]
    second: Sequence[Any] = ()
    if wanted:
        second = torch.autograd.grad(wanted, [*leaves, *given], directions.like(wanted), allow_unused=True)
    return [[materialized(g) for g in part] for part in (first, second)]


def in_place(op: Any) -> Callable[..., Any]:
    """Return the op's in-place form on a copy of its input."""
    return lambda x, *args, **kwargs: op.inplace_variant(x.clone(), *args, **kwargs)


def forms(wanted: Callable[[Any], bool], test: str) -> list[Any]:
    return applicable([op for op in float_ops if op.supports_autograd and wanted(op)], "TestOpGradients", test)


class TestOpGradients(DeviceTestCase):
    def compare(
        self, op: Any, dtype: torch.dtype, derivative: Callable[..., Any], variant: Any = None, limit: int = LIMIT
    ) -> None:
        """Compare the derivative on the device with the CPU's, for the samples that the CPU can do."""
        seen = 0
        for sample in samples(op, dtype, limit, requires_grad=True):
            if incomparable(op, sample) or (variant is not None and sample.broadcasts_input):
                continue
            try:
                f, tensors, _ = as_function(op, sample, "cpu", is_differentiable, variant)
                want = derivative(f, tensors, "cpu") if tensors else None
            except Exception:  # noqa: BLE001 - no derivative, or a sample that is not differentiable
                continue
            if want is None:
                continue
            f, tensors, _ = as_function(op, sample, "atalla", is_differentiable, variant)
            got = derivative(f, tensors, "atalla")
            self.assertEqual(host(got), want, atol=1e-7, rtol=1e-6, equal_nan=True)
            seen += 1
        if not seen:
            self.skipTest("the CPU has no sample of it")

    @ops(forms(lambda op: op.supports_forward_ad, "test_forward_ad"), allowed_dtypes=DTYPES)
    def test_forward_ad(self, device, dtype, op):
        self.compare(op, dtype, forward_ad, limit=FORWARD_LIMIT)

    @ops(forms(lambda op: op.supports_fwgrad_bwgrad, "test_forward_over_reverse"), allowed_dtypes=DTYPES)
    def test_forward_over_reverse(self, device, dtype, op):
        self.compare(op, dtype, forward_over_reverse)

    @ops(forms(lambda op: op.supports_gradgrad, "test_double_backward"), allowed_dtypes=DTYPES)
    def test_double_backward(self, device, dtype, op):
        self.compare(op, dtype, double_backward)

    @ops(forms(lambda op: op.inplace_variant, "test_in_place"), allowed_dtypes=DTYPES)
    def test_in_place(self, device, dtype, op):
        if op.supports_forward_ad:
            self.compare(op, dtype, forward_ad, in_place(op))
        if op.supports_inplace_autograd:
            self.compare(op, dtype, double_backward, in_place(op))


class TestCollected(unittest.TestCase):
    def test_minimum(self):
        minimum = {"forward_ad": 400, "forward_over_reverse": 380, "double_backward": 400, "in_place": 130}
        for name, number in minimum.items():
            self.assertGreaterEqual(collected(globals(), "TestOpGradients", f"test_{name}_"), number, msg=name)

    def test_expected_failures_belong_to_tests(self):
        self.assertEqual(stale_rows(globals(), "TestOpGradients"), [])


instantiate_device_type_tests(TestOpGradients, globals(), only_for=("atalla",))
