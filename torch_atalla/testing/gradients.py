# SPDX-License-Identifier: BSD-3-Clause
"""Gradients of OpInfo samples on atalla, compared with the CPU's."""

from __future__ import annotations

from typing import Any

import torch

from torch_atalla.fallback import Mode
from torch_atalla.fallback import mode as fallback_mode

from .opinfo import largest_error, sample_on, tolerance, widened
from .properties import incomparable, tensors

WIDER = {torch.float32: torch.float64, torch.complex64: torch.complex128}
# Where a gradient may exist and is compared; half types follow float32's formulas.
GRADIENT_DTYPES = (torch.float32, torch.float64, torch.complex64, torch.complex128)


def gradients(op: Any, sample: Any, device: str) -> list[torch.Tensor | None] | None:
    """Of the leaves that want one, for fixed cotangents of all outputs; None where no output depends on a leaf."""
    inputs, args, kwargs = sample_on(op, sample, device)
    leaves = [x for x in tensors((inputs, args, kwargs)) if x.requires_grad]
    result = op(inputs, *args, **kwargs)
    if sample.output_process_fn_grad is not None:
        result = sample.output_process_fn_grad(result)
    outputs = [x for x in tensors(result) if x.requires_grad]
    if not leaves or not outputs:
        return None
    generator = torch.Generator().manual_seed(0)
    cotangents = [torch.randn(x.shape, dtype=x.dtype, generator=generator).to(device) for x in outputs]
    found = torch.autograd.grad(outputs, leaves, cotangents, allow_unused=True)
    return [None if g is None else g.detach() for g in found]


def check_gradients(op: Any, sample: Any, dtype: torch.dtype, device: str = "atalla", fallback: Mode = "error") -> bool:
    """Raises AssertionError on other gradients than the CPU's. False: the sample has none."""
    expected = gradients(op, sample, "cpu")
    if expected is None:
        return False
    with fallback_mode(fallback):
        actual = gradients(op, sample, device)
    assert actual is not None, "no output on the device requires a gradient"
    found = [None if g is None else g.cpu() for g in actual]
    if incomparable(op, sample):
        assert [getattr(g, "shape", None) for g in found] == [getattr(g, "shape", None) for g in expected]
        return True
    try:
        for k, (mine, theirs) in enumerate(zip(found, expected)):
            assert (mine is None) == (theirs is None), (
                f"leaf {k}: atalla {mine is None}, CPU {theirs is None} (is None)"
            )
            if mine is not None:
                torch.testing.assert_close(mine, theirs, equal_nan=True, **tolerance(dtype))
    except AssertionError:
        if dtype not in WIDER:
            raise
        wide = sample.transform(lambda x: x)
        wide.input, wide.args, wide.kwargs = widened((sample.input, sample.args, sample.kwargs), dtype, WIDER[dtype])
        truth = gradients(op, wide, "cpu")
        if truth is None or largest_error(found, truth) > 2 * largest_error(expected, truth):
            raise
    return True
