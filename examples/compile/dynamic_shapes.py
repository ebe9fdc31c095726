# SPDX-License-Identifier: BSD-3-Clause
"""Dynamic shapes: one program for all sizes, whether Dynamo finds them by itself or they are marked.

python examples/compile/dynamic_shapes.py
"""

from __future__ import annotations

import torch
from torch._dynamo.testing import CompileCounterWithBackend


def function(x):
    return torch.softmax(x @ x.t(), -1)


def compilations(**options) -> int:
    torch._dynamo.reset()
    counter = CompileCounterWithBackend("atalla")
    compiled = torch.compile(function, backend=counter, **options)
    for rows in (4, 7, 19, 32):
        x = torch.randn(rows, 8, device="atalla")
        assert torch.equal(compiled(x), function(x))
    return counter.frame_count


print("sizes 4, 7, 19 and 32, each with eager mode's bits")
print("dynamic=False:", compilations(dynamic=False), "compilations")
print("by default:   ", compilations(), "compilations: the second one has a dynamic size")
print("dynamic=True: ", compilations(dynamic=True), "compilation")

torch._dynamo.reset()
x = torch.randn(5, 8, device="atalla")
torch._dynamo.mark_dynamic(x, 0, min=2, max=64)
counter = CompileCounterWithBackend("atalla")
compiled = torch.compile(function, backend=counter)
compiled(x), compiled(torch.randn(60, 8, device="atalla"))
print("mark_dynamic: ", counter.frame_count, "compilation")
