# SPDX-License-Identifier: BSD-3-Clause
"""Type promotion: a result's dtype, and the values computed in it, for every pair of dtypes and kinds of operands."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
from opinfo_suite import answered, raised
from torch_version import NO_CHIP_DTYPES

from torch_atalla.driver.torch_versions import since

DEVICE = "atalla"
REAL = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16,
        torch.float32, torch.float64]  # fmt: skip
DTYPES = [*REAL, torch.complex64, torch.complex128]
ARITHMETIC: dict[str, Callable[..., Any]] = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "floor_divide": torch.floor_divide,
    "remainder": torch.remainder, "pow": torch.pow, "maximum": torch.maximum, "atan2": torch.atan2,
    "where": lambda x, y: torch.where(torch.tensor([True, False, True], device=x.device), x, y),
    "bitwise_and": torch.bitwise_and, "copysign": torch.copysign, "addcmul": lambda x, y: torch.addcmul(x, y, y),
    "lerp": lambda x, y: torch.lerp(x, y, 0.5), "cat": lambda x, y: torch.cat((x, y)),
}  # fmt: skip
COMPARISON = {"eq": torch.eq, "lt": torch.lt, "ge": torch.ge, "ne": torch.ne, "logical_and": torch.logical_and,
              "isclose": torch.isclose}  # fmt: skip
UNARY = {"exp": torch.exp, "neg": torch.neg, "sqrt": torch.sqrt, "abs": torch.abs, "sign": torch.sign,
         "round": torch.round, "isnan": torch.isnan, "sum": torch.sum, "prod": torch.prod, "mean": torch.mean,
         "cumsum": lambda x: x.cumsum(0), "amax": torch.amax, "any": torch.any, "argmax": torch.argmax,
         "sigmoid": torch.sigmoid, "relu": torch.relu, "softmax": lambda x: x.softmax(0), "var": torch.var,
         "logical_not": torch.logical_not, "bitwise_not": torch.bitwise_not, "std": torch.std,
         "reciprocal": torch.reciprocal, "square": torch.square, "angle": torch.angle}  # fmt: skip
# Ops that convert their scalar to the dtype of the tensor, which may not have it.
CONVERTING: dict[str, Callable[..., Any]] = {
    "add": lambda x, v: torch.add(x, x, alpha=v), "sub": lambda x, v: torch.sub(x, x, alpha=v),
    "rsub": lambda x, v: torch.rsub(x, x, alpha=v), "addcmul": lambda x, v: torch.addcmul(x, x, x, value=v),
    "fill_": lambda x, v: x.fill_(v), "full": lambda x, v: torch.full((2,), v, dtype=x.dtype, device=x.device),
    "masked_fill": lambda x, v: x.masked_fill(x > 1, v), "scatter": lambda x, v: x.scatter(0, (x > 1).long(), v),
    "index_fill": lambda x, v: x.index_fill(0, torch.tensor([1], device=x.device), v),
    "clamp": lambda x, v: x.clamp(max=v), "threshold": lambda x, v: torch.threshold(x, v, 1),
}  # fmt: skip
TOO_LARGE = [(torch.uint8, 300), (torch.int8, 300), (torch.int8, -129), (torch.int16, 40_000), (torch.int32, 2**40),
             (torch.float32, 1e300), (torch.float32, -1e300), (torch.bfloat16, 1e300)]  # fmt: skip
SCALARS = [True, 2, 2.5, 1 + 1j]


def tensor(dtype: torch.dtype, values: tuple[int, ...] = (1, 2, 3)) -> torch.Tensor:
    return torch.tensor(values).to(dtype)


def agree(f: Callable[..., Any], *operands: Any) -> None:
    """The same dtype and values as on the CPU, or an error as there."""

    def fresh(device: str) -> list[Any]:
        return [x.to(device, copy=True) if isinstance(x, torch.Tensor) else x for x in operands]

    moved = fresh(DEVICE)
    error = raised(lambda: f(*fresh("cpu")))
    if "not implemented for" in str(error):  # a kernel that the CPU lacks
        return
    if error is not None:
        here = answered(lambda: f(*moved))
        assert type(here) is type(error), f"{here!r}, CPU {error!r}"
        return
    want = f(*fresh("cpu"))
    pair = [x for x in operands if isinstance(x, torch.Tensor)][:2]
    if NO_CHIP_DTYPES & {want.dtype, torch.result_type(pair[0], pair[-1])}:
        if raised(lambda: f(*fresh(DEVICE))) is None:  # a comparison of values that needs no arithmetic
            torch.testing.assert_close(f(*moved).cpu(), want, equal_nan=True)
            return
        assert isinstance(raised(lambda: f(*moved)), NotImplementedError)
        return
    got = f(*moved)
    assert (got.device.type, got.dtype, got.shape) == (DEVICE, want.dtype, want.shape)
    half = any(isinstance(x, torch.Tensor) and x.dtype in (torch.float16, torch.bfloat16) for x in (*operands, want))
    torch.testing.assert_close(got.cpu(), want, equal_nan=True, **({"rtol": 1.6e-2, "atol": 1e-2} if half else {}))


@pytest.mark.parametrize("name", [*ARITHMETIC, *COMPARISON])
@pytest.mark.parametrize("left", DTYPES, ids=str)
def test_pairs_of_tensors(left: torch.dtype, name: str) -> None:
    f = (ARITHMETIC | COMPARISON)[name]
    for right in DTYPES:
        agree(f, tensor(left), tensor(right, (3, 1, 2)))


@pytest.mark.parametrize("name", ["add", "mul", "div", "remainder", "pow", "eq", "lt", "maximum"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_tensors_of_no_dimension(dtype: torch.dtype, name: str) -> None:
    """They yield to tensors with dimensions of the same category; CPU ones are taken too."""
    f = (ARITHMETIC | COMPARISON)[name]
    for other in DTYPES:
        agree(f, tensor(dtype), torch.tensor(2).to(other))
        agree(f, torch.tensor(2).to(other), tensor(dtype))
    x = tensor(dtype)
    error = raised(lambda: f(x, torch.tensor(2.5)))
    if error is None:
        got = f(x.to(DEVICE), torch.tensor(2.5))
        assert got.dtype == f(x, torch.tensor(2.5)).dtype and got.device.type == DEVICE


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_python_scalars(dtype: torch.dtype) -> None:
    for f in (operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow,
              operator.lt, operator.eq, operator.and_):  # fmt: skip
        for scalar in SCALARS:
            if since("2.15") and dtype == torch.bfloat16 and isinstance(scalar, complex):
                continue  # numbers of two bfloat16, which the chip lacks
            agree(lambda x, f=f, s=scalar: f(x, s), tensor(dtype))
            agree(lambda x, f=f, s=scalar: f(s, x), tensor(dtype))


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_one_operand(dtype: torch.dtype, name: str) -> None:
    agree(UNARY[name], tensor(dtype))


@pytest.mark.parametrize("left, right", itertools.product(DTYPES, DTYPES), ids=str)
def test_in_place_and_out(left: torch.dtype, right: torch.dtype) -> None:
    """A result that cannot be cast to its place is refused as on the CPU."""
    for name in ("add", "mul", "div", "pow"):
        agree(lambda x, y, n=name: getattr(x, f"{n}_")(y), tensor(left), tensor(right))
        agree(lambda x, y, n=name: getattr(torch, n)(y, y, out=x), tensor(left), tensor(right))


@pytest.mark.parametrize("source, target", itertools.product(DTYPES, DTYPES), ids=str)
@pytest.mark.filterwarnings("ignore:Casting complex values to real")
def test_conversion(source: torch.dtype, target: torch.dtype) -> None:
    agree(lambda x: x.to(target), tensor(source, (0, 1, 2, 100)))
    agree(lambda x: torch.zeros(4, dtype=target, device=x.device).copy_(x), tensor(source, (0, 1, 2, 100)))


def test_result_type_and_can_cast() -> None:
    for left, right in itertools.product(DTYPES, DTYPES):
        x, y = tensor(left), torch.tensor(1).to(right)
        assert torch.result_type(x.to(DEVICE), y.to(DEVICE)) == torch.result_type(x, y)


def test_where_with_two_numbers_of_the_host() -> None:
    condition = torch.tensor([True, False])
    for x, y in ((torch.tensor(1.0), torch.tensor(2.0)), (torch.tensor(1), torch.tensor(2.5, dtype=torch.float64)),
                 (torch.tensor(1j), 3), (torch.tensor(True), torch.tensor(False))):  # fmt: skip
        got, want = torch.where(condition.to(DEVICE), x, y), torch.where(condition, x, y)
        assert got.dtype == want.dtype and got.device.type == DEVICE and got.tolist() == want.tolist()


def test_integer_overflow_wraps() -> None:
    for dtype in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64):
        top = torch.full((5,), torch.iinfo(dtype).max, dtype=dtype)
        agree(torch.add, top, top)
        agree(torch.mul, top, top)
        agree(torch.neg, torch.full((5,), torch.iinfo(dtype).min, dtype=dtype))


def test_enough_ops() -> None:
    assert len(ARITHMETIC) + len(COMPARISON) >= 20 and len(UNARY) >= 24


@pytest.mark.parametrize("name", CONVERTING)
def test_scalars_that_the_dtype_lacks(name: str) -> None:
    f = CONVERTING[name]
    for dtype, value in TOO_LARGE:
        message = "value cannot be converted to type .* without overflow"
        for x in (tensor(dtype), tensor(dtype).to(DEVICE), torch.ones(2, 3).to(dtype).to(DEVICE).t()):
            with pytest.raises(RuntimeError, match=message):
                f(x.clone(), value)
        for inside in (1, -1) if dtype == torch.uint8 else (1, float("inf") if dtype.is_floating_point else 100):
            agree(f, tensor(dtype), inside)
    if name in ("fill_", "full", "masked_fill", "index_fill", "scatter"):
        with pytest.raises(RuntimeError, match="value cannot be converted to type c10::Half without overflow"):
            f(tensor(torch.float16).to(DEVICE), 1e6)


# At the limits of the dtypes.
NUMBERS = (
    2**63 - 1,
    2**63,
    2**64 - 1,
    -(2**63),
    65520,
    1e30,
    1e39,
    float("inf"),
    float("nan"),
    True,
    1 + 2j,
    -2.5,
    300,
)
LIMIT_DTYPES = (torch.uint8, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64)
WITH_NUMBERS: dict[str, Callable[..., Any]] = {
    "fill_": lambda x, mask, index, s: x.fill_(s),
    "fill_ of one": lambda x, mask, index, s: x[:1].fill_(s),
    "full": lambda x, mask, index, s: torch.full((3,), s, dtype=x.dtype, device=x.device),
    "scalar_tensor": lambda x, mask, index, s: torch.scalar_tensor(s, dtype=x.dtype, device=x.device),
    "masked_fill": lambda x, mask, index, s: x.masked_fill(mask, s),
    "where": lambda x, mask, index, s: torch.where(mask, x, s),
    "index_fill": lambda x, mask, index, s: x.index_fill(0, index, s),
    "scatter": lambda x, mask, index, s: x.scatter(0, index, s),
    "add": lambda x, mask, index, s: x + s,
    "add_": lambda x, mask, index, s: x.add_(s),
    "alpha": lambda x, mask, index, s: torch.add(x, x, alpha=s),
    "rsub": lambda x, mask, index, s: s - x,
    "mul": lambda x, mask, index, s: x * s,
    "eq": lambda x, mask, index, s: x == s,
    "gt": lambda x, mask, index, s: x > s,
    "clamp": lambda x, mask, index, s: x.clamp(max=s),
    "addmm alpha": lambda x, mask, index, s: torch.addmm(x, x.view(1, 3), x.diag(), alpha=s),
    "addmm beta": lambda x, mask, index, s: torch.addmm(x, x.view(1, 3), x.diag(), beta=s),
    "addmv": lambda x, mask, index, s: torch.addmv(x, x.diag(), x, alpha=s),
    "baddbmm": lambda x, mask, index, s: torch.baddbmm(x.view(1, 1, 3), x.view(1, 1, 3), x.diag()[None], beta=s),
    "addcmul": lambda x, mask, index, s: torch.addcmul(x, x, x, value=s),
    "threshold": lambda x, mask, index, s: torch.nn.functional.threshold(x, s, s),
    "hardshrink": lambda x, mask, index, s: torch.nn.functional.hardshrink(x, s),
    "lerp": lambda x, mask, index, s: torch.lerp(x, x + 1, s),
    "softplus": lambda x, mask, index, s: torch.nn.functional.softplus(x, s),
    "index_add": lambda x, mask, index, s: x.index_add(0, index, x[1:2], alpha=s),
}


def number_outcome(call: Callable[..., Any], dtype: torch.dtype, device: str, number: Any) -> torch.Tensor | None:
    """Return the result on the CPU; None if the call is refused."""
    x = torch.tensor([0, 1, 1]).to(dtype).to(device)
    mask, index = torch.tensor([True, False, True], device=device), torch.tensor([1], device=device)
    try:
        return call(x, mask, index, number).cpu()
    except RuntimeError:
        return None


@pytest.mark.parametrize("name", WITH_NUMBERS)
def test_numbers_at_the_limits(name: str) -> None:
    """Integers from 2^63 on, and numbers that a narrow dtype lacks: the CPU's values and refusals."""
    for dtype, number in itertools.product(LIMIT_DTYPES, NUMBERS):
        narrow = dtype in (torch.float16, torch.bfloat16)
        if name == "alpha" and (dtype.is_complex or narrow):
            continue  # upstream's CPU kernel refuses what its CUDA kernel takes
        if name == "rsub" and narrow:
            continue  # the CPU rounds the number to the dtype first; CUDA and the device compute in float32
        if name in ("addmv", "threshold", "hardshrink", "index_add") and narrow:
            continue  # likewise
        if name == "addmm alpha" and number == float("inf"):
            continue  # the CPU multiplies an operand by alpha, not the product
        want, got = (number_outcome(WITH_NUMBERS[name], dtype, device, number) for device in ("cpu", DEVICE))
        assert (want is None) == (got is None), f"{dtype} {number}: {got}, expected {want}"
        if want is not None:
            torch.testing.assert_close(got, want, equal_nan=True, msg=f"{dtype} {number}: {got}, expected {want}")
