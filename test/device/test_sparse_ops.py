# SPDX-License-Identifier: BSD-3-Clause
"""Every OpInfo of COO, CSR and CSC tensors on the device against the CPU, forward and backward."""

from __future__ import annotations

import contextlib
import itertools
import unittest
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from opinfo_suite import OPS, raised
from torch.testing._internal import common_utils
from torch.utils._pytree import tree_leaves, tree_map

import torch_atalla

LAYOUTS = {torch.sparse_coo: "supports_sparse", torch.sparse_csr: "supports_sparse_csr",
           torch.sparse_csc: "supports_sparse_csc"}  # fmt: skip
DTYPES = (torch.float32, torch.int64, torch.bool, torch.complex64, torch.bfloat16)
LIMIT = 6  # samples of a dtype
FORWARD = [(name, layout) for name, op in OPS.items() for layout, flag in LAYOUTS.items() if getattr(op, flag)]
BACKWARD = [name for name, layout in FORWARD if layout == torch.sparse_coo and OPS[name].supports_autograd]
RANDOM = ("randn_like",)  # only sizes, layouts and dtypes are compared

# Cases without a sample that the CPU computes, and why.
NO_FORMULA = "the gradient's formula needs an op that the CPU does not have for sparse tensors"
DETACHED = "the result does not require a gradient on the CPU"
UNCOMPARED: dict[tuple[str, Any], str] = {
    ("conj", torch.sparse_coo): "upstream's samples are no matrices",
    ("nan_to_num", torch.sparse_coo): "upstream's samples are no matrices",
    ("randn_like", torch.sparse_coo): "the CPU has no `normal_` for COO tensors",
    ("conj", "backward"): "upstream's samples are no matrices",
    ("nan_to_num", "backward"): "upstream's samples are no matrices",
    **{(name, "backward"): NO_FORMULA for name in (
        "asin", "asinh", "atan", "atanh", "sin", "sinh", "sgn", "tan", "tanh", "expm1", "sqrt", "erf", "erfinv",
    )},
    **{(f"masked.{name}", "backward"): DETACHED for name in ("sum", "prod", "amax", "amin")},
}  # fmt: skip


@pytest.fixture(autouse=True)
def native() -> Iterator[None]:
    with torch_atalla.fallback.mode("error"):
        yield


def to(device: str, value: Any) -> Any:
    return tree_map(lambda x: x.detach().to(device) if isinstance(x, torch.Tensor) else x, value)


def has_blocks(sample: Any) -> bool:
    """Whether a sample asks for a layout of blocks, which the device refuses (test_layouts.py)."""
    text = f"{sample.args} {sample.kwargs}"
    return "bsr" in text or "bsc" in text or "blocksize" in text


def samples(op: Any, layout: torch.layout, dtype: torch.dtype) -> Iterator[Any]:
    """Upstream's sparse samples; for ops that have none, their dense matrices with zeros, converted."""

    def given() -> Iterator[Any]:
        common_utils.set_rng_seed(common_utils.SEED)
        try:
            yield from op.sample_inputs_sparse(layout, "cpu", dtype)
        except (NotImplementedError, unittest.SkipTest):
            for sample in op.sample_inputs("cpu", dtype):
                if isinstance(sample.input, torch.Tensor) and sample.input.dim() == 2:
                    kept = torch.arange(sample.input.numel()).view_as(sample.input) % 3 == 0
                    sample.input = (sample.input.detach() * kept).to(dtype).to_sparse(layout=layout)
                    yield sample

    yield from itertools.islice((sample for sample in given() if not has_blocks(sample)), LIMIT)


def compare(found: Any, expected: Any, values: bool = True) -> None:
    """The same layouts, dtypes and sizes, and the same values where both are dense."""
    pairs = list(zip(tree_leaves(found), tree_leaves(expected), strict=True))
    for a, e in pairs:
        if not isinstance(e, torch.Tensor):
            assert a == e
            continue
        assert (a.layout, a.dtype, a.shape, a.device.type) == (e.layout, e.dtype, e.shape, "atalla")
        if values:
            tolerance = 2e-2 if e.dtype == torch.bfloat16 else 1e-4
            dense = (x.detach().cpu().to_dense() for x in (a, e))
            torch.testing.assert_close(*dense, rtol=tolerance, atol=tolerance, equal_nan=True)


def forward(name: str, layout: torch.layout) -> int:
    op, compared = OPS[name], 0
    for dtype in DTYPES:
        if dtype not in op.dtypes:
            continue
        for sample in samples(op, layout, dtype):
            arguments = (sample.input, sample.args, sample.kwargs)
            results = []

            def call(device: str) -> None:
                x, args, kwargs = to(device, arguments)  # noqa: B023
                kwargs = {key: device if key == "device" else value for key, value in kwargs.items()}
                results.append(op(x, *args, **kwargs))  # noqa: B023

            if raised(lambda: call("cpu")) is not None:  # noqa: B023
                continue
            call("atalla")
            compare(results[1], results[0], name not in RANDOM)
            compared += 1
    return compared


def gradient(op: Any, sample: Any, device: str) -> torch.Tensor | None:
    x = sample.input.detach().to(device).requires_grad_()
    args, kwargs = to(device, (sample.args, sample.kwargs))
    result = op(x, *args, **kwargs)
    if not isinstance(result, torch.Tensor) or not result.requires_grad:
        return None
    result.to_dense().sum().backward()
    return x.grad


def backward(name: str) -> int:
    op, compared = OPS[name], 0
    for sample in samples(op, torch.sparse_coo, torch.float64):
        expected = None
        with contextlib.suppress(Exception):
            expected = gradient(op, sample, "cpu")
        if expected is None:
            continue
        compare(gradient(op, sample, "atalla"), expected)
        compared += 1
    return compared


def check(key: tuple[str, Any], run: Any) -> None:
    compared = run()
    assert (compared > 0) == (key not in UNCOMPARED), f"{compared} samples were compared"


@pytest.mark.parametrize("name, layout", FORWARD, ids=str)
@pytest.mark.filterwarnings("ignore")
def test_forward(name: str, layout: torch.layout) -> None:
    check((name, layout), lambda: forward(name, layout))


@pytest.mark.parametrize("name", BACKWARD)
@pytest.mark.filterwarnings("ignore")
def test_backward(name: str) -> None:
    check((name, "backward"), lambda: backward(name))


def other_devices() -> Iterator[tuple[int, str]]:
    """The current device, and one that is not current."""
    for current in (0, 1):
        with torch.atalla.device(current):
            yield current, f"atalla:{1 - current}"


@pytest.mark.skipif(torch.atalla.device_count() < 2, reason="needs two devices")
@pytest.mark.parametrize("name, layout", FORWARD, ids=str)
@pytest.mark.filterwarnings("ignore")
def test_device_that_is_not_current(name: str, layout: torch.layout) -> None:
    op = OPS[name]
    for sample in itertools.islice(samples(op, layout, torch.float32), 2):

        def call(device: str) -> Any:
            x, args, kwargs = to(device, (sample.input, sample.args, sample.kwargs))  # noqa: B023
            return op(x, *args, **{k: device if k == "device" else v for k, v in kwargs.items()})  # noqa: B023

        if raised(lambda: call("cpu")) is not None:  # noqa: B023
            continue
        expected = call("cpu")
        for current, device in other_devices():
            found = call(device)
            assert all(t.device == torch.device(device) for t in tree_leaves(found) if isinstance(t, torch.Tensor))
            compare(found, expected, name not in RANDOM)
            assert torch.atalla.current_device() == current


def test_enough_is_compared() -> None:
    known = {*FORWARD, *((name, "backward") for name in BACKWARD)}
    assert set(UNCOMPARED) <= known
    assert len(known) - len(UNCOMPARED) >= 130
