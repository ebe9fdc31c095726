# SPDX-License-Identifier: BSD-3-Clause
"""Binary elementwise ops: extremal values, broadcasting, Python scalars, mixed dtypes, aliasing operands."""

import itertools
import unittest

import torch
from opinfo_suite import DeviceTestCase, collected, host, native_ops, raised, stale_rows
from torch.testing._internal import common_utils
from torch.testing._internal.common_device_type import instantiate_device_type_tests, ops
from torch.testing._internal.opinfo import core

from torch_atalla.testing import check_sample, op_name

binary_ops = [op for op in native_ops if isinstance(op, core.BinaryUfuncInfo)]
float_ops = [op for op in binary_ops if torch.float32 in op.dtypesIf["atalla"]]
FLOATING = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
MIXED = (torch.bool, torch.uint8, torch.int64, torch.float16, torch.float32, torch.float64)


class TestBinaryUfuncs(DeviceTestCase):
    def check(self, op, generate, device, dtype):
        common_utils.set_rng_seed(common_utils.SEED)
        for sample in generate(op, device="cpu", dtype=dtype, requires_grad=False):
            error = raised(lambda s=sample: op(s.input, *s.args, **s.kwargs))
            if error is None:  # a negative exponent of an integer, a division by zero: upstream raises
                check_sample(op, sample, dtype, device)

    @ops(binary_ops, allowed_dtypes=(*FLOATING, *INTEGERS))
    def test_small_values(self, device, dtype, op):
        self.check(op, core.generate_elementwise_binary_small_value_tensors, device, dtype)

    @ops(binary_ops, allowed_dtypes=(*FLOATING, torch.int32, torch.int64))
    def test_large_values(self, device, dtype, op):
        self.check(op, core.generate_elementwise_binary_large_value_tensors, device, dtype)

    @ops(binary_ops, allowed_dtypes=FLOATING)
    def test_extremal_values(self, device, dtype, op):
        self.check(op, core.generate_elementwise_binary_extremal_value_tensors, device, dtype)

    @ops(binary_ops, allowed_dtypes=(torch.float32, torch.int64))
    def test_broadcasting(self, device, dtype, op):
        self.check(op, core.generate_elementwise_binary_broadcasting_tensors, device, dtype)

    @ops(binary_ops, allowed_dtypes=(torch.float32, torch.int64))
    def test_layouts(self, device, dtype, op):
        self.check(op, core.generate_elementwise_binary_noncontiguous_tensors, device, dtype)
        self.check(op, core.generate_elementwise_binary_arbitrarily_strided_tensors, device, dtype)

    @ops([op for op in binary_ops if op.supports_rhs_python_scalar], allowed_dtypes=(torch.float32, torch.int64))
    def test_python_scalars(self, device, dtype, op):
        """Scalars that do and do not change the result's dtype, and 0-d tensors, also of the CPU."""
        common_utils.set_rng_seed(common_utils.SEED)
        for scalar in (True, 2, 1.5):
            x = common_utils.make_tensor((5,), device="cpu", dtype=dtype, low=1, high=6)
            for other in (scalar, torch.tensor(scalar)):
                error = raised(lambda x=x, o=other: op(x, o))
                here = raised(lambda x=x, o=other: op(x.to(device), o))
                self.assertIs(type(here), type(error), msg=f"{other!r}: {here!r}, CPU {error!r}")
                if error is None:
                    actual, expected = host(op(x.to(device), other)), op(x, other)
                    torch.testing.assert_close(actual, expected, equal_nan=True)

    @ops(float_ops, allowed_dtypes=(torch.float32,))
    def test_mixed_dtypes(self, device, dtype, op):
        """Every pair of dtypes that the CPU takes promotes as it does there; the others are refused."""
        common_utils.set_rng_seed(common_utils.SEED)
        for left, right in itertools.product(MIXED, MIXED):
            x, y = (common_utils.make_tensor((4,), device="cpu", dtype=d, low=0 if d == torch.bool else 1, high=5)
                    for d in (left, right))  # fmt: skip
            error = raised(lambda x=x, y=y: op(x, y))
            if error is not None:
                self.assertIsNotNone(raised(lambda x=x, y=y: op(x.to(device), y.to(device))), msg=f"{left} {right}")
                continue
            actual, expected = host(op(x.to(device), y.to(device))), op(x, y)
            loose = {"rtol": 2e-2, "atol": 1e-2} if torch.float16 in (left, right) else {}
            torch.testing.assert_close(actual, expected, equal_nan=True, **loose)

    @ops([op for op in float_ops if op.get_inplace() is not None], allowed_dtypes=(torch.float32,))
    def test_operands_that_alias(self, device, dtype, op):
        """x op= x, and a write into memory that overlaps with itself, which is refused."""
        common_utils.set_rng_seed(common_utils.SEED)
        x = common_utils.make_tensor((6, 6), device="cpu", dtype=dtype, low=1, high=5)
        inplace = op.get_inplace()
        expected_error = raised(lambda: inplace(x.clone(), x))
        if expected_error is not None:
            self.skipTest("the CPU refuses it")
        expected, target = x.clone(), x.to(device)
        inplace(expected, expected)
        inplace(target, target)
        torch.testing.assert_close(target.cpu(), expected, equal_nan=True)
        expanded = x[:1].to(device).expand(6, 6)
        on_cpu = raised(lambda: inplace(x[:1].clone().expand(6, 6), x))
        self.assertIs(type(raised(lambda: inplace(expanded, x.to(device)))), type(on_cpu))


class TestCollected(unittest.TestCase):
    def test_minimum(self):
        self.assertGreaterEqual(len(binary_ops), 40)
        for test, number in {"test_small_values": 300, "test_extremal_values": 120, "test_mixed_dtypes": 35}.items():
            self.assertGreaterEqual(collected(globals(), "TestBinaryUfuncs", test), number, msg=test)
        self.assertEqual(stale_rows(globals(), "TestBinaryUfuncs"), [])
        self.assertTrue(all(op_name(op) for op in binary_ops))


instantiate_device_type_tests(TestBinaryUfuncs, globals(), only_for=("atalla",))
