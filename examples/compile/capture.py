# SPDX-License-Identifier: BSD-3-Clause
"""Graphs of Dynamo and AOTAutograd: the graph of Python calls, and the graphs of ATen ops, forward and backward.

python examples/compile/capture.py
"""

from __future__ import annotations

import logging

import torch
from torch._dynamo.backends.common import aot_autograd


def show(title):
    def compiler(graph_module, inputs):
        print(f"{title}:")
        print("   " + "\n   ".join(graph_module.code.strip().splitlines()))
        return graph_module

    return compiler


def function(x, weight):
    return torch.relu(x @ weight).sum()


x, weight = (torch.randn(4, 4, device="atalla", requires_grad=True) for _ in range(2))
torch.compile(function, backend=show("what Dynamo saw"))(x, weight)
torch._dynamo.reset()
backend = aot_autograd(fw_compiler=show("forward, in ATen ops"), bw_compiler=show("backward, in ATen ops"))
torch.compile(function, backend=backend)(x, weight).backward()


def branches(x):
    return torch.relu(x) if x.sum().item() > 0 else x


logging.getLogger("torch._dynamo").setLevel(logging.ERROR)
report = torch._dynamo.explain(branches)(x)
reason = report.break_reasons[0].reason.splitlines()[0]
print(f"explain: {report.graph_count} graphs, {report.graph_break_count} break: {reason}")
