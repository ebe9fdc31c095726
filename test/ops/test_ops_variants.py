# SPDX-License-Identifier: BSD-3-Clause
"""The forms of a call: out=, in-place, methods, operators, aliases, wrong calls. Upstream-style, over the record."""

import inspect
import unittest
import warnings

import torch
from opinfo_suite import (
    DeviceTestCase,
    answered,
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
from torch.testing._internal.common_device_type import instantiate_device_type_tests, ops
from torch.testing._internal.common_utils import noncontiguous_like

from torch_atalla.testing import op_name, sample_on
from torch_atalla.testing.opinfo import tolerance
from torch_atalla.testing.properties import incomparable

LIMIT = 6
RESIZED = "An output with one or more elements was resized"

out_ops = applicable([op for op in float_ops if op.supports_out], "TestOpVariants", "test_out")
warning_ops = applicable([op for op in float_ops if op.supports_out], "TestOpVariants", "test_out_warning")


def as_tuple(value) -> tuple | None:
    """The tensors of a result that out= can name: one, or a tuple of them."""
    if isinstance(value, torch.Tensor):
        return (value,)
    if isinstance(value, (tuple, list)) and all(isinstance(x, torch.Tensor) for x in value):
        return tuple(value)
    return None


def strided(x: torch.Tensor, device: str) -> torch.Tensor:
    return noncontiguous_like(torch.zeros(x.shape, dtype=x.dtype)).to(device)


def warned(call) -> tuple[bool, Exception | None]:
    """Whether the call warns of a resized output, and what it raises."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        error = answered(call)
    return any(RESIZED in str(w.message) for w in caught), error


def functional_variants(op):
    yield "method", op.get_method()
    for alias in op.aliases:
        yield alias.name, alias.op
        yield f"method {alias.name}", alias.method_variant


def inplace_variants(op):
    yield "in-place", op.get_inplace()
    for alias in op.aliases:
        yield f"in-place {alias.name}", alias.inplace_variant


class TestOpVariants(DeviceTestCase):
    def call(self, op, sample, device):
        torch.manual_seed(0)
        inputs, args, kwargs = sample_on(op, sample, device)
        return inputs, args, kwargs, op(inputs, *args, **kwargs)

    @ops(out_ops, allowed_dtypes=(torch.float32,))
    def test_out(self, device, dtype, op):
        """out= takes right-sized, strided and empty tensors and returns them."""
        for sample in drawn_samples(op, dtype, "out", LIMIT):
            inputs, args, kwargs, result = self.call(op, sample, device)
            expected = as_tuple(result)
            if expected is None:
                self.skipTest("out= cannot name the result")
            for make in (torch.empty_like, lambda x: strided(x, device), lambda x: x.new_empty(0)):
                outs = tuple(make(x) for x in expected)
                layouts = [x.stride() for x in outs]
                torch.manual_seed(0)
                given = op(inputs, *args, **kwargs, out=outs if len(outs) > 1 else outs[0])
                for k, (out, value, layout) in enumerate(zip(outs, expected, layouts)):
                    if given is not None:  # unbind_copy and its like give nothing
                        self.assertIs(as_tuple(given)[k], out)
                    self.assertEqual(out.shape, value.shape)
                    if not incomparable(op, sample):
                        torch.testing.assert_close(out.cpu(), value.cpu(), equal_nan=True, **tolerance(dtype))
                    if len(layout) == out.ndim and out.numel():
                        self.assertEqual(out.stride(), layout)

    @ops(warning_ops, allowed_dtypes=(torch.float32,))
    def test_out_warning(self, device, dtype, op):
        """out= of a wrong size warns, one of a wrong dtype or device raises: as on the CPU."""

        def grown(x):
            return x.new_zeros([n + 1 for n in x.shape] if x.ndim else [2])

        def whole(x):
            return torch.zeros_like(x, dtype=torch.long)

        for sample in samples(op, dtype, 2):
            inputs, args, kwargs, result = self.call(op, sample, device)
            expected = as_tuple(result)
            if expected is None or not all(x.numel() for x in expected):
                continue
            for make in (grown, whole):
                here = tuple(make(x) for x in expected)
                there = tuple(x.cpu() for x in here)
                calls = (
                    lambda o=here: op(inputs, *args, **kwargs, out=o if len(o) > 1 else o[0]),  # noqa: B023
                    lambda o=there, s=sample: op(s.input, *s.args, **s.kwargs, out=o if len(o) > 1 else o[0]),
                )
                (warns, error), (cpu_warns, cpu_error) = warned(calls[0]), warned(calls[1])
                self.assertEqual((warns, type(error)), (cpu_warns, type(cpu_error)), msg=f"{make}: {error!r}")
            elsewhere = tuple(x.cpu() for x in expected)
            error = answered(lambda o=elsewhere: op(inputs, *args, **kwargs, out=o if len(o) > 1 else o[0]))  # noqa: B023
            self.assertIsInstance(error, RuntimeError, msg="out= on the CPU, inputs on the device")

    @ops(applicable(float_ops, "TestOpVariants", "test_variant_consistency_eager"), allowed_dtypes=(torch.float32,))
    def test_variant_consistency_eager(self, device, dtype, op):
        """Methods and aliases give the function's value; in-place forms also write it into their input."""
        with torch.no_grad():
            for sample in drawn_samples(op, dtype, "variants", LIMIT):
                if isinstance(sample.input, torch.Tensor):
                    self.check_functional(op, sample, device, dtype)
                    if not sample.broadcasts_input:
                        self.check_inplace(op, sample, device, dtype)

    def check_functional(self, op, sample, device, dtype):
        inputs, args, kwargs, expected = self.call(op, sample, device)
        variants = list(functional_variants(op))
        operator = op.get_operator()
        if operator is not None and not kwargs and len(inspect.signature(operator).parameters) == 1 + len(args):
            variants.append(("operator", operator))
        for name, variant in variants:
            if variant is not None:
                torch.manual_seed(0)
                result = variant(inputs, *args, **kwargs)
                if incomparable(op, sample):
                    self.assertEqual(result.shape, expected.shape)
                    continue
                torch.testing.assert_close(
                    host(result), host(expected), equal_nan=True, msg=lambda m, n=name: f"{n}: {m}"
                )

    def check_inplace(self, op, sample, device, dtype):
        inputs, args, kwargs, expected = self.call(op, sample, device)
        variants = list(inplace_variants(op))
        operator = op.get_inplace_operator()
        if operator is not None and not kwargs and len(inspect.signature(operator).parameters) == 1 + len(args):
            variants.append(("in-place operator", operator))
        for name, variant in variants:
            if variant is None:
                continue
            target, on_cpu = inputs.clone(), sample.input.clone()
            cpu_error = raised(lambda v=variant, t=on_cpu: v(t, *sample.args, **sample.kwargs))
            torch.manual_seed(0)
            pointer = target.untyped_storage().data_ptr()
            if cpu_error is not None:  # a result of another dtype or shape has no place in the input
                error = raised(lambda v=variant, t=target: v(t, *args, **kwargs))
                self.assertIs(type(error), type(cpu_error), msg=f"{name}: {error!r}, CPU {cpu_error!r}")
                continue
            result = variant(target, *args, **kwargs)
            if isinstance(result, torch.Tensor) and isinstance(expected, torch.Tensor):
                self.assertEqual(result.untyped_storage().data_ptr(), pointer, msg=name)
                if incomparable(op, sample):
                    continue
                expected_here = expected.to(target.dtype).cpu()
                torch.testing.assert_close(target.cpu(), expected_here, equal_nan=True, **tolerance(dtype))

    @ops([op for op in native_ops if op.error_inputs_func is not None], allowed_dtypes=(torch.float32,))
    def test_errors(self, device, dtype, op):
        """Wrong calls raise what the CPU raises, in its words where they name no device."""
        for error in op.error_inputs("cpu"):
            sample = error.sample_input
            on_cpu = raised(lambda s=sample: op(s.input, *s.args, **s.kwargs))
            inputs, args, kwargs = sample_on(op, sample, device)
            here = answered(lambda: op(inputs, *args, **kwargs))  # noqa: B023
            if isinstance(here, IndexError) and isinstance(on_cpu, RuntimeError) and "index" in str(on_cpu):
                continue  # the chip reports an index outside its range as one kind of fault
            if "Could this error message be improved" in str(on_cpu):
                self.assertIsNotNone(here)  # an internal check of the CPU's kernel
                continue
            self.assertIs(type(here), type(on_cpu), msg=f"CPU {on_cpu!r}, atalla {here!r}")
            text, cpu_text = (str(e).partition("\nException raised from")[0] for e in (here, on_cpu))
            if not any(word in (text + cpu_text).lower() for word in ("cpu", "atalla")):
                self.assertEqual(text, cpu_text)


class TestCollected(unittest.TestCase):
    def test_minimum(self):
        self.assertEqual(collected(globals(), "TestOpVariants", "test_out_warning_"), len(warning_ops))
        self.assertGreaterEqual(len(out_ops), 150)
        self.assertGreaterEqual(collected(globals(), "TestOpVariants", "test_variant_consistency_eager_"), 350)
        self.assertGreaterEqual(collected(globals(), "TestOpVariants", "test_errors_"), 60)

    def test_expected_failures_belong_to_tests(self):
        self.assertEqual(stale_rows(globals(), "TestOpVariants"), [])
        self.assertTrue(all(op_name(op) for op in native_ops))


instantiate_device_type_tests(TestOpVariants, globals(), only_for=("atalla",))
