# SPDX-License-Identifier: BSD-3-Clause
"""Reductions: every dimension, keepdim, empty and 0-d inputs, identities, extremal values, duplicates, accumulation."""

import itertools
import unittest

import torch
from opinfo_suite import DeviceTestCase, answered, collected, host, native_ops, raised, stale_rows
from torch.testing._internal import common_utils
from torch.testing._internal.common_device_type import instantiate_device_type_tests, ops
from torch.testing._internal.opinfo import core

from torch_atalla.testing import check_sample, op_name

reductions = [op for op in native_ops if isinstance(op, core.ReductionOpInfo)]
FLOATING = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
DTYPES = (torch.bool, torch.uint8, torch.int64, *FLOATING)


def settings(op, ndim):
    """Keyword arguments: no dimension, single ones from both ends, pairs where the op takes them; keepdim or not."""
    dims = [None, *range(-ndim, ndim)]
    if op.supports_multiple_dims:
        dims += list(itertools.combinations(range(ndim), 2))
    for dim, keep in itertools.product(dims, (False, True)):
        kwargs = {} if dim is None else {"dim": dim}
        if keep and (dim is not None or op_name(op).startswith("masked")):
            kwargs["keepdim"] = True
        yield kwargs


class TestReductions(DeviceTestCase):
    def check(self, op, x, device, **kwargs):
        """As on the CPU: the value, or the kind of error."""
        extra = next(iter(op.generate_args_kwargs(x)), ((), {}))
        args, kwargs = extra[0], extra[1] | kwargs
        error = raised(lambda: op(x, *args, **kwargs))
        if error is not None:
            here = answered(lambda: op(x.to(device), *args, **kwargs))
            self.assertIs(type(here), type(error), msg=f"{kwargs}: {here!r}, CPU {error!r}")
            return
        check_sample(op, core.SampleInput(x, args=args, kwargs=kwargs), x.dtype, device)

    @ops(reductions, allowed_dtypes=(torch.float32, torch.int64))
    def test_dimensions(self, device, dtype, op):
        common_utils.set_rng_seed(common_utils.SEED)
        x = common_utils.make_tensor((3, 4, 5), device="cpu", dtype=dtype, low=-3, high=4)
        for kwargs in settings(op, 3):
            self.check(op, x, device, **kwargs)

    @ops(reductions, allowed_dtypes=(torch.float32,))
    def test_wrong_dimensions(self, device, dtype, op):
        x = torch.ones(2, 3)
        for dim in (2, -3, (0, 0), (0, 5)):
            if isinstance(dim, int) or op.supports_multiple_dims:
                self.check(op, x, device, dim=dim)

    @ops(reductions, allowed_dtypes=DTYPES)
    def test_empty(self, device, dtype, op):
        """Of nothing: the identity, or upstream's error; of an empty result: nothing."""
        for shape in ((0,), (2, 0), (0, 3)):
            self.check(op, torch.empty(shape, dtype=dtype), device)
            for dim in range(len(shape)):
                self.check(op, torch.empty(shape, dtype=dtype), device, dim=dim)

    @ops(reductions, allowed_dtypes=(torch.float32, torch.int64))
    def test_scalar(self, device, dtype, op):
        for kwargs in ({}, {"dim": 0}, {"dim": -1}):
            self.check(op, torch.tensor(3, dtype=dtype), device, **kwargs)

    @ops(reductions, allowed_dtypes=FLOATING)
    def test_extremal_values(self, device, dtype, op):
        """An infinity or a NaN among numbers, first, last and alone."""
        inf, nan = float("inf"), float("nan")
        for values in ([inf, 1, 2], [1, -inf, 2], [1, 2, nan], [inf, -inf, 1], [nan, inf, 1], [0.0, -0.0, 0.0], [nan]):
            self.check(op, torch.tensor(values, dtype=dtype), device)

    @ops(reductions, allowed_dtypes=(torch.float32, torch.int64))
    def test_layouts(self, device, dtype, op):
        common_utils.set_rng_seed(common_utils.SEED)
        x = common_utils.make_tensor((4, 6, 5), device="cpu", dtype=dtype, low=-3, high=4)
        for y in (x.permute(2, 0, 1), x[::2, 1::2], x[:1].expand(3, 6, 5), x.transpose(0, 2)[1:]):
            for dim in range(3):
                self.check(op, y, device, dim=dim)

    @ops(reductions, allowed_dtypes=(torch.float16, torch.bfloat16, torch.float32))
    def test_long(self, device, dtype, op):
        """Many terms: accumulated as widely as upstream accumulates."""
        common_utils.set_rng_seed(common_utils.SEED)
        x = torch.rand(3, 20_011).to(dtype) / 8
        self.check(op, x, device, dim=1)
        self.check(op, x.t(), device, dim=0)

    @ops([op for op in reductions if op_name(op) in ("argmax", "argmin", "amax", "amin")], allowed_dtypes=DTYPES)
    def test_duplicates(self, device, dtype, op):
        """The first of equal values, wherever the vector lanes are cut."""
        for n in (2, 17, 300):
            x = torch.ones(n, dtype=dtype)
            self.check(op, x, device)
            x[n // 2] = 0
            self.check(op, x, device)

    def test_overflow_wraps(self, device):
        x = torch.full((3,), torch.iinfo(torch.int64).max)
        for f in (torch.sum, torch.prod):
            self.assertEqual(f(x.to(device)).cpu(), f(x))
        self.assertEqual(torch.full((300,), 1, dtype=torch.uint8, device=device).sum().item(), 300)

    def test_mean_of_infinite_complex_numbers(self, device):
        inf = float("inf")
        for z in ([complex(inf, 1), 1j], [complex(-inf, inf), 2], [complex(0, inf)], [complex(1, 2), complex(3, 5)]):
            for dtype in (torch.complex64, torch.complex128):
                x = torch.tensor([z, z], dtype=dtype)
                self.assertEqual(x.to(device).mean(), x.mean())
                self.assertEqual(x.to(device).mean(1, keepdim=True), x.mean(1, keepdim=True))

    def test_dtype_argument(self, device):
        """Elements are converted before they are summed: a sum of truth values is whether any is true."""
        inputs = [
            torch.tensor(x) for x in ([0.5, 0.25], [1, -1], [2.0**62, 2.0**62], [0.5j, 0], [[1, 2, 3], [4, 5, 6]])
        ]
        inputs += [torch.tensor([2, 254], dtype=torch.uint8), torch.tensor([0.5, -2.5], dtype=torch.float16)]
        dtypes = (torch.bool, torch.uint8, torch.int8, torch.int64, torch.float16, torch.float64, torch.complex64)
        functions = {
            "sum": torch.sum, "prod": lambda x, dtype: torch.prod(x, 0, dtype=dtype), "nansum": torch.nansum,
            "mean": torch.mean, "cumsum": lambda x, dtype: torch.cumsum(x, 0, dtype=dtype),
            "cumprod": lambda x, dtype: torch.cumprod(x, 0, dtype=dtype), "norm": torch.linalg.vector_norm,
        }  # fmt: skip
        for (name, f), x, dtype in itertools.product(functions.items(), inputs, dtypes):
            with self.subTest(function=name, input=x, dtype=dtype):
                self.check_dtype_argument(f, x, dtype, device)

    def check_dtype_argument(self, f, x, dtype, device):
        expected, found = (answered(lambda t=t: f(t, dtype=dtype)) for t in (x, x.to(device)))
        if isinstance(expected, torch.Tensor) and isinstance(found, torch.Tensor):
            self.assertEqual(host(found), expected, equal_nan=True)
        else:
            self.assertIs(type(found), type(expected), msg=f"{found!r}, CPU {expected!r}")


class TestCollected(unittest.TestCase):
    def test_minimum(self):
        self.assertGreaterEqual(len(reductions), 20)
        for test, number in {"test_dimensions": 35, "test_empty": 100, "test_long": 50}.items():
            self.assertGreaterEqual(collected(globals(), "TestReductions", test), number, msg=test)
        self.assertEqual(stale_rows(globals(), "TestReductions"), [])


instantiate_device_type_tests(TestReductions, globals(), only_for=("atalla",))
