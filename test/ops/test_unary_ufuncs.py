# SPDX-License-Identifier: BSD-3-Clause
"""Unary elementwise ops at the values where formulas break: small, large, extremal, and in every layout."""

import unittest

import torch
from opinfo_suite import DeviceTestCase, collected, host, native_ops, stale_rows
from torch.testing._internal import common_utils
from torch.testing._internal.common_device_type import instantiate_device_type_tests, ops
from torch.testing._internal.opinfo import core

from torch_atalla.testing import CHIP_DTYPES, check_sample, op_name, sample_on
from torch_atalla.testing.opinfo import tolerance

unary_ops = [op for op in native_ops if isinstance(op, core.UnaryUfuncInfo)]
RANGED = (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int8, torch.uint8, torch.int64)
FLOATING = (torch.float16, torch.bfloat16, torch.float32, torch.float64)

# Numbers at the ends of a dtype's range, and around them.
BITS = {torch.float16: torch.int16, torch.bfloat16: torch.int16, torch.float32: torch.int32, torch.float64: torch.int64}


def ends(dtype: torch.dtype) -> torch.Tensor:
    """Of a floating dtype: zeros, denormals, the least normal, one, the largest, inf, nan, of both signs; of integers:
    the ends of its range."""
    if dtype in BITS:
        info, bits = torch.finfo(dtype), BITS[dtype]
        denormals = torch.tensor([1, 2, 7], dtype=bits).view(dtype)
        rest = torch.tensor([0.0, info.tiny, info.eps, 0.5, 1.0, info.max, float("inf"), float("nan")], dtype=dtype)
        positive = torch.cat([denormals, rest])
        return torch.cat([positive, -positive])
    info = torch.iinfo(dtype)
    return torch.tensor([info.min, info.min + 1, -1 if info.min else 1, 0, 1, info.max - 1, info.max], dtype=dtype)


class TestUnaryUfuncs(DeviceTestCase):
    def check(self, op, generate, device, dtype):
        common_utils.set_rng_seed(common_utils.SEED)
        for sample in generate(op, device="cpu", dtype=dtype, requires_grad=False):
            check_sample(op, sample, dtype, device)

    @ops(unary_ops, allowed_dtypes=RANGED)
    def test_small_values(self, device, dtype, op):
        self.check(op, core.generate_elementwise_unary_small_value_tensors, device, dtype)

    @ops(unary_ops, allowed_dtypes=(*FLOATING, torch.int16, torch.int32, torch.int64))
    def test_large_values(self, device, dtype, op):
        self.check(op, core.generate_elementwise_unary_large_value_tensors, device, dtype)

    @ops(unary_ops, allowed_dtypes=(*FLOATING, torch.complex64))
    def test_extremal_values(self, device, dtype, op):
        self.check(op, core.generate_elementwise_unary_extremal_value_tensors, device, dtype)

    @ops(unary_ops, allowed_dtypes=(torch.float32, torch.int64))
    def test_layouts(self, device, dtype, op):
        """Transposed, sliced, expanded and arbitrarily strided inputs of one to five dimensions."""
        self.check(op, core.generate_elementwise_unary_noncontiguous_tensors, device, dtype)
        self.check(op, core.generate_elementwise_unary_arbitrarily_strided_tensors, device, dtype)

    @ops(unary_ops, allowed_dtypes=[d for d in CHIP_DTYPES if d != torch.bool and not d.is_complex])
    def test_ends_of_the_range(self, device, dtype, op):
        """One sample of numbers that no generator gives together, denormals among them."""
        x = ends(dtype)
        kwargs = op.sample_kwargs("cpu", dtype, x)[0]
        check_sample(op, core.SampleInput(x, kwargs=kwargs), dtype, device)

    @ops(unary_ops, allowed_dtypes=(torch.float32, torch.int32))
    def test_value_does_not_depend_on_the_position(self, device, dtype, op):
        """The vector body and the scalar tail of a kernel give the same bits."""
        if op_name(op) == "nn.functional.rrelu":
            self.skipTest("draws random numbers")
        x = core._make_unary_elementwise_tensor((1,), op=op, dtype=dtype, device="cpu")
        for n in (1, 7, 64, 1031):
            sample = core.SampleInput(x.expand(n).contiguous(), kwargs=op.sample_kwargs("cpu", dtype, x)[0])
            inputs, args, kwargs = sample_on(op, sample, device)
            result = host(op(inputs, *args, **kwargs))
            for y in result if isinstance(result, tuple) else (result,):
                torch.testing.assert_close(y, y[:1].expand(n), rtol=0, atol=0, equal_nan=True)

    @ops([op for op in unary_ops if op.ref is not None], allowed_dtypes=(torch.float64,))
    def test_reference_numerics(self, device, dtype, op):
        """Against numpy or scipy, where upstream names a reference: no error shared with the CPU's kernels."""
        common_utils.set_rng_seed(common_utils.SEED)
        x = core._make_unary_elementwise_tensor((257,), op=op, dtype=dtype, device="cpu")
        kwargs, numpy_kwargs = op.sample_kwargs("cpu", dtype, x)
        sample = core.SampleInput(x, kwargs=kwargs)
        inputs, args, moved = sample_on(op, sample, device)
        actual = host(op(inputs, *args, **moved))
        expected = op.ref(x.numpy(), **numpy_kwargs)
        if isinstance(actual, torch.Tensor) and not isinstance(expected, tuple):
            self.assertEqual(actual, torch.as_tensor(expected), exact_dtype=False, **tolerance(torch.float32))


class TestCollected(unittest.TestCase):
    def test_minimum(self):
        for test, number in {"test_small_values": 300, "test_extremal_values": 200, "test_ends_of_the_range": 450,
                             "test_reference_numerics": 40}.items():  # fmt: skip
            self.assertGreaterEqual(collected(globals(), "TestUnaryUfuncs", test), number, msg=test)
        self.assertEqual(stale_rows(globals(), "TestUnaryUfuncs"), [])


instantiate_device_type_tests(TestUnaryUfuncs, globals(), only_for=("atalla",))
