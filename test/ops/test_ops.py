# SPDX-License-Identifier: BSD-3-Clause
"""OpInfo checks, upstream-style, with the fallback forbidden, over the OpInfos and dtypes of the record.

Values, gradients, dtypes, layouts. test_ops_variants.py has the forms of a call: out=, in-place, methods, errors.
"""

import unittest

import torch
from opinfo_suite import (
    ABSENT,
    COMPLETE,
    OPS,
    RECORD,
    DeviceTestCase,
    applicable,
    collected,
    drawn_samples,
    float_ops,
    host,
    native_ops,
    raised,
    samples,
    stale_rows,
)
from torch.testing._internal.common_device_type import OpDTypes, instantiate_device_type_tests, ops
from torch.utils._pytree import tree_leaves, tree_map

import torch_atalla
from torch_atalla.testing import (
    DEVICE_DTYPES,
    GRADIENT_DTYPES,
    check_gradients,
    check_sample,
    op_name,
    run_on,
    sample_on,
)
from torch_atalla.testing.opinfo import tolerance
from torch_atalla.testing.properties import incomparable

MINIMUM_OPINFOS = 691
MINIMUM_PAIRS = 6041
LIMIT = 8  # samples of a test that is not about values
# Not of test_conj_view and test_neg_view: views of storages, and results that PyTorch's fallback of the bit refuses.
NO_BITS = {"as_strided_partial_views", "_batch_norm_with_update", "_native_batch_norm_legit"}

gradient_ops = [op for op in native_ops if RECORD.ops[op_name(op)].backward]
complex_ops = [op for op in native_ops if torch.complex64 in op.dtypesIf["atalla"]]
bool_ops = applicable(
    [op for op in native_ops if torch.bool in op.dtypesIf["atalla"]], "TestOps", "test_non_standard_bool_values"
)


def is_pointwise(op) -> bool:
    """Whether native_functions.yaml tags the op, in any overload, as pointwise."""
    packet = getattr(torch.ops.aten, op.aten_name, None)
    return packet is not None and any(torch.Tag.pointwise in getattr(packet, o).tags for o in packet.overloads())


def column_major(value):
    """The same values in Fortran order: pointwise results inherit it."""

    def turn(x):
        if not isinstance(x, torch.Tensor) or x.layout != torch.strided or x.ndim < 2:
            return x
        dims = list(reversed(range(x.ndim)))
        return x.detach().permute(dims).contiguous().permute(dims)

    return tree_map(turn, value)


def strides(value) -> list:
    """Of the tensors of a result; a dimension of size one, or of an empty tensor, has any stride."""
    tensors = [x for x in tree_leaves(value) if isinstance(x, torch.Tensor)]
    return [[s for n, s in zip(x.shape, x.stride()) if n != 1] if x.numel() else [] for x in tensors]


class TestOps(DeviceTestCase):
    @ops(native_ops, allowed_dtypes=DEVICE_DTYPES)
    def test_values(self, device, dtype, op):
        """Samples give the CPU's value (test_compare_cpu: every one, in float32)."""
        for sample in drawn_samples(op, dtype, "values"):
            check_sample(op, sample, dtype, device)

    @ops(gradient_ops, allowed_dtypes=GRADIENT_DTYPES)
    def test_gradients(self, device, dtype, op):
        """Every gradient is the CPU's, and its kernels are native."""
        if dtype not in RECORD.ops[op_name(op)].dtypes("backward"):
            self.skipTest("the record has no gradient in this dtype")
        for sample in drawn_samples(op, dtype, "gradients", requires_grad=True):
            check_gradients(op, sample, dtype, device)

    @ops(list(OPS.values()), dtypes=OpDTypes.none)
    def test_dtypes(self, device, op):
        """The dtypes of the record are those that run: no fewer, and no more (else `make opinfo` is due)."""
        if op_name(op).startswith("jiterator_"):
            self.skipTest("compiles CUDA C++")
        if op_name(op) in ("to_sparse", "sparse.sampled_addmm"):
            self.skipTest("about sparse layouts: test/device/test_sparse.py")
        claimed = op.dtypesIf["atalla"]
        wrong = []
        for dtype in sorted(set(DEVICE_DTYPES) & op.dtypes, key=str):
            limit = 1 if dtype in claimed else None
            found = list(samples(op, dtype, limit))
            errors = (raised(lambda s=s, d=dtype: check_sample(op, s, d, device)) for s in found)
            runs = bool(found) and not any(errors)
            if runs != (dtype in claimed) and found and (COMPLETE or not runs):
                wrong.append(f"{dtype}: runs {runs}, claimed {dtype in claimed}")
        self.assertEqual(wrong, [])

    @ops(applicable(float_ops, "TestOps", "test_noncontiguous"), allowed_dtypes=(torch.float32,))
    def test_noncontiguous(self, device, dtype, op):
        """Values do not depend on the strides of the inputs."""
        for sample in drawn_samples(op, dtype, "noncontiguous"):
            check_sample(op, sample.noncontiguous(), dtype, device)

    @ops(float_ops, allowed_dtypes=(torch.float32,))
    def test_compare_cpu(self, device, dtype, op):
        """Reference inputs (broadcasts, extremal values, many layouts) give the CPU's value."""
        for sample in samples(op, dtype, kind="reference"):
            check_sample(op, sample, dtype, device)

    @ops([op for op in float_ops if is_pointwise(op)], allowed_dtypes=(torch.float32,))
    def test_pointwise_tag(self, device, dtype, op):
        """Ops tagged `pointwise` keep the layout of their inputs."""
        for sample in drawn_samples(op, dtype, "pointwise", LIMIT):
            sample.input, sample.args, sample.kwargs = column_major((sample.input, sample.args, sample.kwargs))
            check_sample(op, sample, dtype, device)
            expected = op(sample.input, *sample.args, **sample.kwargs)
            self.assertEqual(strides(run_on(op, sample, device)), strides(expected))

    @ops(bool_ops, allowed_dtypes=(torch.bool,))
    def test_non_standard_bool_values(self, device, dtype, op):
        """Any byte but zero is true."""

        def other_bytes(x):
            if not isinstance(x, torch.Tensor) or x.dtype != torch.bool or x.numel() == 0:
                return x
            truth = torch.randint(2, 256, x.shape, dtype=torch.uint8)
            return torch.where(x.cpu(), truth, 0).to(torch.uint8).to(device).view(torch.bool)

        for sample in drawn_samples(op, dtype, "bool", LIMIT):
            if incomparable(op, sample):
                continue
            inputs, args, kwargs = tree_map(other_bytes, sample_on(op, sample, device))
            expected = op(sample.input, *sample.args, **sample.kwargs)
            self.assertEqual(host(op(inputs, *args, **kwargs)), host(expected))

    def check_bits(self, op, dtype, device, with_bit):
        """Inputs whose values are the same, but which are lazily conjugated or negated, give the same results."""
        for sample in samples(op, dtype, 2):
            if incomparable(op, sample) or not isinstance(sample.input, torch.Tensor):
                continue
            inputs, args, kwargs = sample_on(op, sample, device)
            torch.manual_seed(0)
            expected = host(op(inputs, *args, **kwargs))
            inputs, args, kwargs = tree_map(with_bit, (inputs, args, kwargs))
            torch.manual_seed(0)
            result = host(op(inputs, *args, **kwargs))
            torch.testing.assert_close(result, expected, equal_nan=True, **tolerance(dtype))

    @ops(
        [op for op in complex_ops if op.test_conjugated_samples and op.formatted_name not in NO_BITS],
        allowed_dtypes=(torch.complex64,),
    )
    def test_conj_view(self, device, dtype, op):
        """The conj bit of inputs is resolved."""

        def conjugated(x):
            return x.detach().conj_physical().conj() if isinstance(x, torch.Tensor) and x.is_complex() else x

        self.check_bits(op, dtype, device, conjugated)

    @ops(
        [op for op in float_ops if op.test_neg_view and op.formatted_name not in NO_BITS],
        allowed_dtypes=(torch.float32,),
    )
    def test_neg_view(self, device, dtype, op):
        """The neg bit of inputs is resolved."""

        def negated(x):
            signed = isinstance(x, torch.Tensor) and (x.is_floating_point() or x.is_complex())
            return torch._neg_view(x.detach().neg()) if signed else x

        self.check_bits(op, dtype, device, negated)

    @ops(float_ops, allowed_dtypes=(torch.float32,))
    def test_deterministic(self, device, dtype, op):
        """The same bits again, with other numbers of host threads."""
        before = torch_atalla.chip.get_num_threads()
        for sample in samples(op, dtype, 2):
            results = []
            for threads in (1, 2):
                torch_atalla.chip.set_num_threads(threads)
                torch.manual_seed(0)
                results.append(host(run_on(op, sample, device)))
            torch_atalla.chip.set_num_threads(before)
            if not op_name(op).startswith(("empty", "new_empty")):
                torch.testing.assert_close(*results, rtol=0, atol=0, equal_nan=True)


class TestCollected(unittest.TestCase):
    """A device registered too late yields no tests and a green run; so the numbers are asserted."""

    def test_minimum(self):
        self.assertEqual({op_name(op) for op in native_ops}, {n for n, row in RECORD.ops.items() if row.forward})
        self.assertGreaterEqual(len(native_ops) + len(ABSENT), MINIMUM_OPINFOS)
        self.assertGreaterEqual(RECORD.pairs() + len(DEVICE_DTYPES) * len(ABSENT), MINIMUM_PAIRS)
        self.assertEqual(collected(globals(), "TestOps", "test_values_"), RECORD.pairs())
        self.assertEqual(collected(globals(), "TestOps", "test_dtypes_"), len(OPS))
        for test in ("test_compare_cpu_", "test_deterministic_"):
            self.assertEqual(collected(globals(), "TestOps", test), len(float_ops))
        self.assertGreaterEqual(collected(globals(), "TestOps", "test_pointwise_tag_"), 100)
        self.assertGreaterEqual(collected(globals(), "TestOps", "test_conj_view_"), 350)
        self.assertGreaterEqual(collected(globals(), "TestOps", "test_neg_view_"), 550)
        self.assertGreaterEqual(collected(globals(), "TestOps", "test_non_standard_bool_values_"), 150)

    def test_tolerance_of_exact_dtypes(self):
        self.assertEqual(tolerance(torch.int64), {})

    def test_expected_failures_belong_to_tests(self):
        self.assertEqual(stale_rows(globals(), "TestOps"), [])

    def test_families(self):
        self.assertGreaterEqual(len(torch_atalla.ops.families()), 80)


instantiate_device_type_tests(TestOps, globals(), only_for=("atalla",))
