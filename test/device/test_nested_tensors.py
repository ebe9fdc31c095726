# SPDX-License-Identifier: BSD-3-Clause
"""Nested tensors of strided layout: every operator against the CPU, forward, backward and errors."""

from __future__ import annotations

import copy
import io
import itertools
from typing import Any

import torch
from nested_cases import CASES, INPUTS, nested
from opinfo_suite import DeviceTestCase, collected
from torch import Tensor, nn
from torch.testing._internal.common_device_type import instantiate_device_type_tests
from torch.testing._internal.common_utils import parametrize
from torch.utils._python_dispatch import TorchDispatchMode

import torch_atalla  # noqa: F401

# Operators of the dispatch key without a case.
WITHOUT_CASE = {
    "_pin_memory": "pinned memory is the host's",
    "_test_autograd_multiple_dispatch.fullcoverage": "exists for the tests of PyTorch",
    "_test_autograd_multiple_dispatch.ntonly": "exists for the tests of PyTorch",
    "normal_": "random: test_random_numbers",
    "value_selecting_reduction_backward": "PyTorch's kernel refuses every call: only jagged tensors have it",
}
BACKWARD_REFUSED_BY_THE_CPU = {"to_padded_size"}  # with more components than there are
NOT_IMPLEMENTED = "Could not run|is not implemented on the atalla device"


def flat(value: Any) -> list[Tensor]:
    """The dense tensors of a result, components of nested ones included."""
    if isinstance(value, (tuple, list)):
        return [t for item in value for t in flat(item)]
    if not isinstance(value, Tensor):
        return []
    return flat(value.detach().unbind()) if value.is_nested else [value.detach()]


def outcome(case: Any, name: str, device: str, backward: bool) -> list[Tensor] | Exception:
    """What the call gives: results and the gradient of the input, or the error."""
    x = nested(INPUTS[name], device, requires_grad=backward)
    try:
        result = case(x)
        if not backward:
            return flat(result)
        results = result if isinstance(result, (tuple, list)) else [result]
        differentiable = [r for r in results if isinstance(r, Tensor) and r.requires_grad]
        if differentiable:
            differentiable[0].backward(torch.ones_like(differentiable[0]))
        return flat([x.grad])
    except Exception as error:  # noqa: BLE001
        return error


class Recorder(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen: set[str] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.add(func.name().removeprefix("aten::"))
        return func(*args, **(kwargs or {}))


class TestNestedTensors(DeviceTestCase):
    def assert_same_error(self, want: Exception, got: Any, where: str) -> None:
        self.assertIsInstance(got, Exception, f"{where}: the CPU raises {want}")
        if isinstance(want, NotImplementedError):
            self.assertIsInstance(got, NotImplementedError, where)
            self.assertRegex(str(got), NOT_IMPLEMENTED, where)
        else:
            self.assertIsInstance(got, type(want), f"{where}: {got}")

    @parametrize("name", sorted(CASES))
    def test_operator(self, device, name):
        refused: set[str] = set()
        for inputs, backward in itertools.product(INPUTS, (False, True)):
            if inputs in refused:
                continue
            want = outcome(CASES[name], inputs, "cpu", backward)
            got = outcome(CASES[name], inputs, device, backward)
            where = f"{name} of {inputs}, {'backward' if backward else 'forward'}"
            if isinstance(want, Exception):
                refused.add(inputs)
                if not (backward and name in BACKWARD_REFUSED_BY_THE_CPU):
                    self.assert_same_error(want, got, where)
                continue
            self.assertNotIsInstance(got, Exception, f"{where}: {got}")
            self.assertEqual(len(got), len(want), where)
            for mine, cpu in zip(got, want, strict=True):
                self.assertEqual(mine.cpu(), cpu, atol=1e-5, rtol=1e-4, msg=where)

    def test_every_operator_has_a_case(self, device):
        recorder = Recorder()
        with recorder:
            for case in CASES.values():
                for name in ("rows", "ragged"):
                    outcome(case, name, device, backward=True)
                    outcome(case, name, device, backward=False)
        key = "NestedTensorPrivateUse1"
        names = {
            name.removeprefix("aten::")
            for name in torch._C._dispatch_get_all_op_names()
            if name.startswith("aten::") and torch._C._dispatch_has_kernel(name)
            if torch._C._dispatch_has_kernel_for_dispatch_key(name, key)
        }
        self.assertGreater(len(names), 90)
        self.assertEqual(names - recorder.seen - WITHOUT_CASE.keys(), set())
        self.assertEqual(WITHOUT_CASE.keys() & recorder.seen, set())

    @parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
    @parametrize("name", ["linear", "layer_norm", "softmax", "matmul", "bmm", "sum", "multi_head_attention"])
    def test_dtypes(self, device, name, dtype):
        tolerance = {torch.bfloat16: 3e-2, torch.float16: 4e-3, torch.float64: 1e-9}[dtype]
        mine, cpu = (flat(CASES[name](nested(INPUTS["rows"], where, dtype=dtype))) for where in (device, "cpu"))
        for got, want in zip(mine, cpu, strict=True):
            self.assertEqual(got.cpu(), want, atol=tolerance, rtol=tolerance)

    def test_gradients_of_components(self, device):
        """The size of a nested tensor is asked for where PyTorch allows no exception."""
        parts = [p.to(device).requires_grad_() for p in INPUTS["rows"]]
        x = torch.nested.as_nested_tensor(parts)
        self.assertTrue(x.requires_grad)
        (x * 3).to_padded_tensor(0.0).sum().backward()
        for part in parts:
            self.assertEqual(part.grad.cpu(), torch.full(part.shape, 3.0))

    def test_dense_rows(self, device):
        """[B, *, D] with [B, 1, D], and [B, *] with [B, 1], as on CUDA."""
        for name, dense in (
            ("rows", torch.randn(3, 1, 4)),
            ("with_empty", torch.randn(3, 1, 4)),
            ("vectors", torch.randn(3, 1)),
        ):
            x = nested(INPUTS[name], device)
            for f in (torch.add, torch.mul):
                for got, part, row in zip(f(x, dense.to(device)).unbind(), INPUTS[name], dense, strict=True):
                    self.assertEqual(got.cpu(), f(part, row if part.dim() == 2 else row[0]))
        with self.assertRaisesRegex(RuntimeError, "Expected both self and other to be nested"):
            nested(INPUTS["rows"], device) + torch.ones(3, 2, 4, device=device)

    def test_random_numbers(self, device):
        x = nested(INPUTS["rows"], device)
        for draw in (lambda: torch.randn_like(x), lambda: x.clone().normal_(), lambda: nn.functional.dropout(x, 0.5)):
            torch.manual_seed(3)
            first = flat(draw())
            torch.manual_seed(3)
            for a, b in zip(first, flat(draw()), strict=True):
                self.assertEqual(a, b)
            self.assertEqual([t.shape for t in first], [t.shape for t in INPUTS["rows"]])

    def test_select_with_a_negative_dimension(self, device):
        for got, part in zip(nested(INPUTS["rows"], device).select(-1, 2).unbind(), INPUTS["rows"], strict=True):
            self.assertEqual(got.cpu(), part[:, 2])

    def test_padded_sizes_are_checked(self, device):
        x = nested(INPUTS["rows"], device)
        sizes = x._nested_tensor_size()
        for shape, text in (
            ((2, 3, 4), "at least 3 components"),
            ((3, 2, 4), "at least 3 in dimension 1"),
            ((3, 4), "of 3 dim"),
        ):
            with self.assertRaisesRegex(RuntimeError, text):
                torch._nested_from_padded(torch.ones(shape, device=device), sizes)
        with self.assertRaisesRegex(RuntimeError, "int64 matrix on the CPU"):
            torch._nested_from_padded(torch.ones(3, 3, 4, device=device), sizes.to(device))

    def test_copies(self, device):
        x = nested(INPUTS["rows"], device)
        file = io.BytesIO()
        torch.save(x, file)
        file.seek(0)
        loaded = torch.load(file)
        self.assertEqual(loaded.device, x.device)
        self.assertTrue(repr(x).startswith("nested_tensor(["))
        for y in (loaded, x.clone(), x.cpu(), x.to(torch.float64)):
            for got, part in zip(y.unbind(), INPUTS["rows"], strict=True):
                self.assertEqual(got.cpu().float(), part)
        with self.assertRaises(NotImplementedError):  # as on the CPU
            copy.deepcopy(x)

    def test_a_device_that_is_not_current(self, device):
        if torch.atalla.device_count() < 2:
            self.skipTest("needs two devices")
        other = f"atalla:{1 - torch.atalla.current_device()}"
        for name in ("add", "linear", "layer_norm", "softmax", "matmul", "sum", "encoder_layer", "from_padded", "cat"):
            want = outcome(CASES[name], "rows", "cpu", backward=False)
            got = outcome(CASES[name], "rows", other, backward=False)
            self.assertNotIsInstance(got, Exception, f"{name}: {got}")
            for mine, cpu in zip(got, want, strict=True):
                self.assertEqual(mine.device, torch.device(other))
                self.assertEqual(mine.cpu(), cpu, atol=1e-5, rtol=1e-4)

    @parametrize("norm_first", [False, True])
    def test_transformer_encoder(self, device, norm_first):
        torch.manual_seed(2)
        layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, norm_first=norm_first)
        encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=True).eval()
        x, padding = torch.randn(3, 6, 16), torch.arange(6) >= torch.tensor([[6], [1], [4]])
        with torch.no_grad():
            want = encoder(x, src_key_padding_mask=padding)
            mine = copy.deepcopy(encoder).to(device)
            recorder = Recorder()
            with recorder:
                got = mine(x.to(device), src_key_padding_mask=padding.to(device))
        self.assertEqual(got.cpu(), want, atol=1e-5, rtol=1e-4)
        self.assertEqual("_nested_tensor_from_mask" in recorder.seen, not norm_first)

    def test_compile(self, device):
        """Dynamo leaves nested tensors of strided layout to eager mode."""
        x = nested(INPUTS["rows"], device)
        torch._dynamo.reset()
        got = torch.compile(lambda t: (t * 2).relu())(x)
        for mine, part in zip(got.unbind(), INPUTS["rows"], strict=True):
            self.assertEqual(mine.cpu(), (part * 2).relu())

    @parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
    @parametrize("offsets_dtype", [torch.int64, torch.int32])
    def test_jagged_and_padded(self, device, dtype, offsets_dtype):
        to_padded, to_jagged = (
            torch.ops.aten._jagged_to_padded_dense_forward,
            torch.ops.aten._padded_dense_to_jagged_forward,
        )
        values = (torch.randn(6, 2, 3) * 5).to(dtype)
        offsets = torch.tensor([0, 2, 2, 5, 6], dtype=offsets_dtype)
        for longest, padding in ((3, 1.0), (5, 0.0), (2, 0.0)):
            want = to_padded(values, [offsets], [longest], padding)
            padded = to_padded(values.to(device), [offsets.to(device)], [longest], padding)
            self.assertEqual(padded.cpu(), want)
            if longest >= 3:
                for total in (None, 6):
                    self.assertEqual(to_jagged(padded, [offsets.to(device)], total).cpu(), values)
        with self.assertRaisesRegex(RuntimeError, "at least 3 positions"):
            to_jagged(padded, [offsets.to(device)])
        with self.assertRaisesRegex(RuntimeError, "final offset should match total_L"):
            to_jagged(want.new_zeros(4, 3, 2, 3).to(device), [offsets.to(device)], 7)
        with self.assertRaisesRegex(RuntimeError, "single jagged dim"):
            to_padded(values.to(device), [offsets.to(device)] * 2, [3, 3])

    def test_padding_of_a_view(self, device):
        nested = torch.nested.nested_tensor([torch.ones(2, 5), torch.ones(3, 5)], device=device)
        with self.assertRaisesRegex(RuntimeError, "for now to_padded_tensor only supports contiguous nested tensor"):
            nested.transpose(1, 2).to_padded_tensor(0.0)

    def test_jagged_layout(self, device):
        x = torch.nested.nested_tensor(INPUTS["rows"], layout=torch.jagged, device=device, requires_grad=True)
        padded = x.to_padded_tensor(0.0)
        padded.square().sum().backward()
        for got, part in zip(x.grad.unbind(), INPUTS["rows"], strict=True):
            self.assertEqual(got.cpu(), part * 2)
        for got, part in zip(x.detach().softmax(-1).unbind(), INPUTS["rows"], strict=True):
            self.assertEqual(got.cpu(), part.softmax(-1))


instantiate_device_type_tests(TestNestedTensors, globals(), only_for=("atalla",))


def test_count() -> None:
    assert collected(globals(), "TestNestedTensors") >= len(CASES) + 30
