# SPDX-License-Identifier: BSD-3-Clause
"""OpInfo checks, upstream-style, with the fallback forbidden, over the OpInfos recorded as fully native.

The record (opinfo_native.json) is written by tools/opinfo_sweep.py --write. It may grow and must not shrink.
"""

import unittest
from pathlib import Path

import torch
from torch.testing._internal.common_device_type import instantiate_device_type_tests, ops
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_utils import TestCase, noncontiguous_like, run_tests

import torch_atalla
from torch_atalla.testing import CHIP_DTYPES, Record, check_sample, op_name
from torch_atalla.testing.opinfo import to_device, tolerance

RECORD = Record.load(Path(__file__).parent / "opinfo_native.json")
MINIMUM_OPINFOS = 350
MINIMUM_PAIRS = 2950

native_ops = [op for op in op_db if op_name(op) in RECORD.ops]
for op in native_ops:
    op.dtypesIf["atalla"] = RECORD.ops[op_name(op)].dtypes()

COMMON = [op for op in native_ops if torch.float32 in op.dtypesIf["atalla"]]


# Their meaning is the memory layout itself, so that another layout of the input is another question.
LAYOUT_BOUND = {"as_strided", "as_strided_copy", "as_strided_scatter", "view_as_complex"}
# The functional op is native, its out= overload is not: it must be refused, not wrong.
OUT_FALLS_BACK = {"conj_physical", "narrow_copy"}


def raised(call) -> type | None:
    """Type of the exception that the call raises, or None."""
    try:
        call()
    except Exception as error:  # noqa: BLE001
        return type(error)
    return None


class TestOps(TestCase):
    def setUp(self):
        super().setUp()
        self.guard = torch_atalla.fallback.mode("error")
        self.guard.__enter__()

    def tearDown(self):
        self.guard.__exit__()
        super().tearDown()

    @ops(native_ops, allowed_dtypes=CHIP_DTYPES)
    def test_values(self, device, dtype, op):
        """Every sample gives the CPU's value."""
        for sample in op.sample_inputs("cpu", dtype):
            check_sample(op, sample, dtype, device)

    @ops([op for op in COMMON if op_name(op) not in LAYOUT_BOUND], allowed_dtypes=(torch.float32,))
    def test_noncontiguous(self, device, dtype, op):
        """Values do not depend on the strides of the inputs."""
        for sample in op.sample_inputs("cpu", dtype):
            strided = sample.noncontiguous()
            check_sample(op, strided, dtype, device)

    @ops([op for op in COMMON if op.supports_out], allowed_dtypes=(torch.float32,))
    def test_out(self, device, dtype, op):
        """out= takes a right-sized, a strided and an empty tensor; a wrong device or dtype is upstream's error."""
        for n, sample in enumerate(op.sample_inputs("cpu", dtype)):
            if n == 4:
                break
            inputs, args, kwargs = to_device((sample.input, sample.args, sample.kwargs), device)
            expected = op(inputs, *args, **kwargs)
            if not isinstance(expected, torch.Tensor):
                return
            if op_name(op) in OUT_FALLS_BACK:
                with self.assertRaises(NotImplementedError):
                    op(inputs, *args, **kwargs, out=torch.empty_like(expected))
                return
            for out in (
                torch.empty_like(expected),
                noncontiguous_like(torch.zeros(expected.shape, dtype=expected.dtype)).to(device),
                torch.empty(0, dtype=expected.dtype, device=device),
            ):
                result = op(inputs, *args, **kwargs, out=out)
                self.assertIs(result, out)
                torch.testing.assert_close(out.cpu(), expected.cpu(), equal_nan=True, **tolerance(dtype))
            wrong = torch.empty_like(expected, dtype=torch.long)
            on_cpu = raised(lambda s=sample, w=wrong: op(s.input, *s.args, **s.kwargs, out=w.cpu()))
            here = raised(lambda: op(inputs, *args, **kwargs, out=wrong))  # noqa: B023
            self.assertTrue(here is on_cpu or issubclass(here or object, on_cpu or ()), msg=f"{here}, CPU {on_cpu}")

    @ops([op for op in COMMON if op.get_inplace() is not None], allowed_dtypes=(torch.float32,))
    def test_inplace(self, device, dtype, op):
        """The in-place variant writes into its input and gives the functional variant's value."""
        inplace = op.get_inplace()
        for n, sample in enumerate(op.sample_inputs("cpu", dtype)):
            if n == 6:
                break
            if sample.broadcasts_input or not isinstance(sample.input, torch.Tensor):
                continue
            inputs, args, kwargs = to_device((sample.input, sample.args, sample.kwargs), device)
            expected = op(inputs, *args, **kwargs)
            if expected.dtype != inputs.dtype or expected.shape != inputs.shape:
                continue
            target = inputs.clone()
            pointer = target.data_ptr()
            result = inplace(target, *args, **kwargs)
            self.assertEqual(result.data_ptr(), pointer)
            torch.testing.assert_close(target.cpu(), expected.cpu(), equal_nan=True, **tolerance(dtype))

    @ops([op for op in native_ops if op.error_inputs_func is not None], allowed_dtypes=(torch.float32,))
    def test_errors(self, device, dtype, op):
        """Bad input raises what the CPU raises."""
        for error in op.error_inputs("cpu"):
            sample = error.sample_input
            on_cpu = raised(lambda s=sample: op(s.input, *s.args, **s.kwargs))
            inputs, args, kwargs = to_device((sample.input, sample.args, sample.kwargs), device)
            here = raised(lambda: op(inputs, *args, **kwargs))  # noqa: B023
            self.assertEqual(here is None, on_cpu is None, msg=f"{sample}: CPU {on_cpu}, atalla {here}")


class TestCollected(unittest.TestCase):
    """A device registered too late yields no tests and a green run; so the numbers are asserted."""

    def test_minimum(self):
        collected = [n for n in dir(globals().get("TestOpsPRIVATEUSE1", object)) if n.startswith("test_values_")]
        pairs = RECORD.pairs()
        print(f"\n{len(native_ops)} fully native OpInfos, {len(collected)} op-dtype pairs")
        self.assertEqual(len(native_ops), len({op_name(op) for op in native_ops} & set(RECORD.ops)))
        self.assertGreaterEqual(len(native_ops), MINIMUM_OPINFOS)
        self.assertGreaterEqual(pairs, MINIMUM_PAIRS)
        self.assertGreaterEqual(len(collected), MINIMUM_PAIRS)

    def test_families(self):
        self.assertGreaterEqual(len(torch_atalla.ops.families()), 80)


instantiate_device_type_tests(TestOps, globals(), only_for=("atalla",))

if __name__ == "__main__":
    run_tests()
