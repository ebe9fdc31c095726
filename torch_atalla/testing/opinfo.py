# SPDX-License-Identifier: BSD-3-Clause
"""Runs OpInfo samples on atalla with the fallback forbidden and compares with the CPU."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map, tree_map_only

from torch_atalla.fallback import Mode
from torch_atalla.fallback import mode as fallback_mode

from .properties import check_properties, incomparable, op_name

# Dtypes of the chip's kernels.
CHIP_DTYPES = (
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
    torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128,
)  # fmt: skip

# Further dtypes of PyTorch, which native ops compute in one of the chip's (csrc/aten/dispatch/emulated_dtypes.h).
EMULATED_DTYPES = (
    torch.complex32, torch.uint16, torch.uint32, torch.uint64,
    torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2, torch.float8_e5m2fnuz,
)  # fmt: skip
DEVICE_DTYPES = CHIP_DTYPES + EMULATED_DTYPES


# OpInfos whose tensor arguments (sections, indices of a split) belong on the CPU, whatever the input's device.
HOST_ARGUMENTS = {"tensor_split"}


def to_device(value: Any, device: str) -> Any:
    """Moves the tensors of a nested sample. Strides, offsets, and which tensors share memory stay as they are."""
    moved: dict[int, torch.Tensor] = {}  # host storage -> its copy on the device

    def move(x: Any) -> Any:
        if isinstance(x, torch.Tensor) and x.device.type != "meta":
            return move_strided(x, device, moved)
        if isinstance(x, torch.device) or (isinstance(x, str) and x == "cpu"):
            return torch.device(device)
        return x

    return tree_map(move, value)


def move_strided(x: torch.Tensor, device: str, moved: dict[int, torch.Tensor]) -> torch.Tensor:
    if x.layout != torch.strided or x.numel() == 0 or x.is_conj() or x.is_neg():
        return x.detach().to(device).requires_grad_(x.requires_grad)
    storage = x.untyped_storage()
    if storage.data_ptr() not in moved:
        moved[storage.data_ptr()] = torch.empty(0, dtype=torch.uint8).set_(storage).to(device)
    base = torch.empty(0, dtype=x.dtype, device=device)
    base.set_(moved[storage.data_ptr()].untyped_storage(), x.storage_offset(), x.size(), x.stride())
    return base.requires_grad_(x.requires_grad)


def tolerance(dtype: torch.dtype) -> dict[str, Any]:
    """torch.testing's defaults, widened for half types and for reductions whose order differs."""
    if dtype == torch.bfloat16:
        return {"rtol": 1.6e-2, "atol": 1e-2}
    if dtype in (torch.float16, torch.complex32):
        return {"rtol": 2e-3, "atol": 2e-3}
    if dtype in (torch.float32, torch.complex64):
        return {"rtol": 1e-5, "atol": 2e-5}
    if dtype in (torch.float64, torch.complex128):
        return {"rtol": 1e-7, "atol": 1e-7}
    return {}  # torch.testing's own, by the dtype of the result


def largest_error(values: Any, truth: Any) -> float:
    """Largest absolute difference of two structures of tensors; inf where exactly one of them is finite."""
    worst = 0.0
    for x, t in zip(tree_leaves(values), tree_leaves(truth)):
        if isinstance(x, torch.Tensor) and (x.is_floating_point() or x.is_complex()) and x.numel():
            t = t.to(x.dtype)
            if x.is_complex():
                x, t = torch.view_as_real(x.resolve_conj()), torch.view_as_real(t.resolve_conj())
            x, t = x.double(), t.double()
            same = (x == t) | (x.isnan() & t.isnan())
            difference = torch.where(same, 0.0, (x - t).abs())
            worst = max(worst, torch.where(difference.isnan(), torch.inf, difference).max().item())
    return worst


def widened(value: Any, dtype: torch.dtype, wide: torch.dtype) -> Any:
    """A nested sample with the tensors of a dtype, and the dtype itself, in a wider one. Gradients are still wanted."""

    def widen(x: Any) -> Any:
        if isinstance(x, torch.Tensor) and x.dtype == dtype:
            return x.detach().to(wide).requires_grad_(x.requires_grad)
        return wide if x is dtype else x

    return tree_map(widen, value)


def as_close_as_cpu(op: Any, sample: Any, dtype: torch.dtype, actual: Any, expected: Any) -> bool:
    """Whether atalla is about as close to the double-precision result as the CPU is (at most as far for half types).

    Many CPU kernels round to half between the steps of an op; the chip rounds once, so the two may differ by more than
    a tolerance for one rounding allows. Long chains in float32 and complex64 differ by the order of their sums, and an
    ill-conditioned one by more: there the result may be as far off as changed last bits of the inputs would bring it.
    """
    wide = torch.complex128 if dtype == torch.complex64 else torch.float64

    inputs, args, kwargs = widened((sample.input, sample.args, sample.kwargs), dtype, wide)
    truth = op(inputs, *args, **kwargs)
    error, cpu_error = largest_error(actual, truth), largest_error(expected, truth)
    if dtype not in (torch.float32, torch.complex64):
        return error <= cpu_error
    if error <= 2 * cpu_error:
        return True
    generator = torch.Generator().manual_seed(0)

    def nudge(x: Any) -> Any:
        if not isinstance(x, torch.Tensor) or x.dtype != wide:
            return x
        signs = torch.randint(2, x.shape, generator=generator) * 2 - 1
        return x.detach() * (1 + signs * torch.finfo(torch.float32).eps)

    inputs, args, kwargs = tree_map(nudge, (inputs, args, kwargs))
    return error <= 2 * largest_error(op(inputs, *args, **kwargs), truth)


def _scaled_mm(
    self: torch.Tensor,
    mat2: torch.Tensor,
    scale_a: torch.Tensor,
    scale_b: torch.Tensor,
    bias: torch.Tensor | None = None,
    scale_result: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    use_fast_accum: bool = False,
) -> torch.Tensor:
    """What float8 cannot hold is rounded as copies round it: float8_e4m3fn saturates."""
    result = (self.float() * scale_a) @ (mat2.float() * scale_b)
    if bias is not None:
        result += bias.float()
    if scale_result is not None and (out_dtype or self.dtype).itemsize == 1:
        result *= scale_result
    return result.to(out_dtype or self.dtype)


# Instead of the CPU's kernel where that gives one value or another by what the machine has: beyond float8_e4m3fn oneDNN
# gives NaN, or saturates.
REFERENCES = {"torch._scaled_mm": _scaled_mm}


def sample_on(op: Any, sample: Any, device: str) -> tuple[Any, tuple, dict]:
    """Input, arguments and keyword arguments with their tensors on the device."""
    if op_name(op) in HOST_ARGUMENTS:
        return to_device(sample.input, device), sample.args, sample.kwargs
    return to_device((sample.input, sample.args, sample.kwargs), device)


def run_on(op: Any, sample: Any, device: str = "atalla", fallback: Mode = "error") -> Any:
    """The op on `device`; raises NotImplementedError where it is not native and the fallback is forbidden."""
    inputs, args, kwargs = sample_on(op, sample, device)
    with fallback_mode(fallback):
        return op(inputs, *args, **kwargs)


def check_sample(op: Any, sample: Any, dtype: torch.dtype, device: str = "atalla", fallback: Mode = "error") -> None:
    """Runs one sample on both devices. Raises AssertionError on different values, or whatever atalla raises."""
    if incomparable(op, sample):
        check_properties(op, sample, lambda: run_on(op, sample, device, fallback))
        return
    expected = REFERENCES.get(op_name(op), op)(sample.input, *sample.args, **sample.kwargs)
    actual = run_on(op, sample, device, fallback)
    if expected is NotImplemented:  # a reflected operator that leaves the operands to Python
        assert actual is NotImplemented
        return
    if sample.output_process_fn_grad is not None:
        expected, actual = sample.output_process_fn_grad(expected), sample.output_process_fn_grad(actual)
    host = tree_map_only(torch.Tensor, lambda x: x.detach().cpu(), actual)
    expected = tree_map_only(torch.Tensor, lambda x: x.detach(), expected)
    try:
        torch.testing.assert_close(host, expected, equal_nan=True, **tolerance(dtype))
    except AssertionError:
        inexact = (torch.float16, torch.bfloat16, torch.float32, torch.complex64)
        if dtype not in inexact or not as_close_as_cpu(op, sample, dtype, host, expected):
            raise
