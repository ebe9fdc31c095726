# SPDX-License-Identifier: BSD-3-Clause
"""vmap of every native OpInfo, equal to the CPU's, with the fallback forbidden.

What torch.func cannot do on the CPU is left out sample by sample; the suite asserts how much is left.
"""

from __future__ import annotations

import unittest
from collections.abc import Callable
from typing import Any

import torch
from opinfo_suite import OPS, DeviceTestCase, applicable, collected, drawn_samples, host, native_ops
from sample_functions import as_function
from torch.func import vmap
from torch.testing._internal.common_device_type import OpDTypes, instantiate_device_type_tests, ops
from torch.utils._pytree import tree_leaves

from tools.opinfo.selection import excluded
from torch_atalla.testing.properties import incomparable

LIMIT = 4  # samples of an op


def widest(op: Any) -> torch.dtype:
    """Return the op's widest real floating-point dtype, or its widest other one."""
    return max(op.dtypesIf["atalla"], key=lambda d: (d.is_floating_point, d.itemsize, str(d)))


def batched(x: torch.Tensor) -> torch.Tensor:
    """Two elements that differ where values may: integers are mostly indices, and 0.875 x keeps most ops' domain."""
    return torch.stack([x, x * 0.875 if x.dtype.is_floating_point or x.is_complex() else x])


class TestFunctorchOps(DeviceTestCase):
    def compare(self, op, call: Callable[[str, Any], Any]) -> None:
        """call(device, sample) of the samples that the CPU can do."""
        seen, dtype = 0, widest(op)
        differentiable = op.supports_autograd and (dtype.is_floating_point or dtype.is_complex)
        tolerances = {"atol": 1e-8, "rtol": 1e-7} if dtype in (torch.float64, torch.complex128) else {}
        if op.name == "special.airy_ai":  # of -3.7 to -2.09, the CPU's values are off by up to 3e-6, the series says
            tolerances["atol"] = 5e-6
        for sample in drawn_samples(op, dtype, "vmap", LIMIT, requires_grad=differentiable):
            if incomparable(op, sample):
                continue
            try:
                want = call("cpu", sample)
            except Exception:  # noqa: BLE001 - no batching rule, no derivative, no tensor
                continue
            got = call("atalla", sample)
            for leaf in tree_leaves(got):
                self.assertEqual(leaf.device.type, "atalla")
            self.assertEqual(host(got), host(want), equal_nan=True, **tolerances)
            seen += 1
        if not seen:
            self.skipTest("the CPU has no sample of it")

    @ops(applicable(native_ops, "TestFunctorchOps", "test_vmap"), dtypes=OpDTypes.none)
    def test_vmap(self, device, op):
        def call(where, sample):
            f, tensors, places = as_function(op, sample, where, lambda x: True)
            return vmap(f)(*map(batched, tensors))

        self.compare(op, call)


instantiate_device_type_tests(TestFunctorchOps, globals(), only_for="privateuse1")


class TestCollected(unittest.TestCase):
    def test_every_op(self):
        """Each OpInfo is tested, or has a reason why it runs on no device but a GPU or not with strided tensors."""
        left_out = [name for name, op in OPS.items() if op not in native_ops]
        self.assertEqual([name for name in left_out if excluded(OPS[name]) is None], [])
        self.assertEqual(collected(globals(), "TestFunctorchOps", "test_vmap"), len(native_ops))
        self.assertGreaterEqual(len(native_ops), 600)
