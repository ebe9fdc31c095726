# SPDX-License-Identifier: BSD-3-Clause
"""Fallback segments as text."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from torch_atalla.compiler.capture.capture import capture
from torch_atalla.compiler.linearize.segments import encode_segment
from torch_atalla.loadable.errors import LoadableError
from torch_atalla.loadable.host_call import Segment, find_op


class Fn(nn.Module):
    def __init__(self, fn: Any):
        super().__init__()
        self.fn = fn

    def forward(self, *args: torch.Tensor) -> Any:
        return self.fn(*args)


CASES = {
    "sort": (lambda x: torch.sort(x, stable=True, descending=True)[0], (torch.randn(3, 4),)),
    "infinity": (lambda x: x.masked_fill(x > 0, float("-inf")), (torch.randn(5),)),
    "not a number": (lambda x: torch.full_like(x, float("nan")), (torch.randn(5),)),
    "dtypes and devices": (lambda x: x.to(torch.float64) + torch.zeros(3, dtype=torch.bfloat16), (torch.randn(3),)),
    "optional and list": (lambda x, y: torch.cat([x, y], 0).sum((0,), keepdim=True), (torch.ones(2, 3),) * 2),
    "complex": (lambda x: torch.fft.fft(x).abs() * 2.5, (torch.randn(8),)),
    "dynamic inside": (lambda x: x.unique().sum(), (torch.randn(9),)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_round_trip(name: str) -> None:
    fn, args = CASES[name]
    program = capture(Fn(fn), args)
    nodes = [node for node in program.graph.nodes if node.op == "call_function"]
    inputs = list(program.graph.find_nodes(op="placeholder"))
    (results,) = program.graph.output_node().args
    call = encode_segment(nodes, inputs, list(results))
    found = Segment(call.program).run(list(args))
    torch.testing.assert_close(found, [fn(*args)], equal_nan=True, rtol=0, atol=0)


def test_wrong_number_of_tensors() -> None:
    with pytest.raises(LoadableError, match="takes 1 tensors, got 2"):
        Segment('{"inputs":1,"nodes":[],"outputs":[0]}').run([torch.ones(1)] * 2)


def test_unknown_operator() -> None:
    with pytest.raises(LoadableError, match="no operator aten::frobnicate"):
        find_op("aten::frobnicate")
    with pytest.raises(LoadableError, match="no operator nowhere::add.Tensor"):
        find_op("nowhere::add.Tensor")
