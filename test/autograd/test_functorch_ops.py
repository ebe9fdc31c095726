# SPDX-License-Identifier: BSD-3-Clause
"""vmap of every native OpInfo, equal to the CPU's, with the fallback forbidden.

What torch.func cannot do on the CPU is left out sample by sample; the suite asserts how much is left.
"""

from __future__ import annotations

import unittest
from collections.abc import Callable
from typing import Any

import torch
from opinfo_suite import OPS, DeviceTestCase, applicable, collected, float_ops, host, samples
from sample_functions import as_function
from torch.func import vmap
from torch.testing._internal.common_device_type import instantiate_device_type_tests, ops
from torch.utils._pytree import tree_leaves

from torch_atalla.testing.properties import incomparable

LIMIT = 4  # samples of an op


def batched(x: torch.Tensor) -> torch.Tensor:
    """Two elements that differ where values may: integers are mostly indices, and 0.875 x keeps most ops' domain."""
    return torch.stack([x, x * 0.875 if x.dtype.is_floating_point or x.is_complex() else x])


class TestFunctorchOps(DeviceTestCase):
    def compare(self, op, call: Callable[[str, Any], Any]) -> None:
        """call(device, sample) of the samples that the CPU can do."""
        seen = 0
        for sample in samples(op, torch.float64, LIMIT, requires_grad=op.supports_autograd):
            if incomparable(op, sample):
                continue
            try:
                want = call("cpu", sample)
            except Exception:  # noqa: BLE001 - no batching rule, no derivative, no tensor
                continue
            got = call("atalla", sample)
            for leaf in tree_leaves(got):
                self.assertEqual(leaf.device.type, "atalla")
            self.assertEqual(host(got), host(want), atol=1e-8, rtol=1e-7, equal_nan=True)
            seen += 1
        if not seen:
            self.skipTest("the CPU has no sample of it")

    @ops(applicable(float_ops, "TestFunctorchOps", "test_vmap"), allowed_dtypes=(torch.float64,))
    def test_vmap(self, device, dtype, op):
        def call(where, sample):
            f, tensors, places = as_function(op, sample, where, lambda x: True)
            return vmap(f)(*map(batched, tensors))

        self.compare(op, call)


instantiate_device_type_tests(TestFunctorchOps, globals(), only_for="privateuse1")


class TestCollected(unittest.TestCase):
    def test_minimum(self):
        self.assertGreaterEqual(collected(globals(), "TestFunctorchOps", "test_vmap"), 500)
        self.assertGreaterEqual(len(OPS), 600)
