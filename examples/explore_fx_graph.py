# SPDX-License-Identifier: BSD-3-Clause
"""Graphs of torch.fx and torch.export
===================================

One model, two graphs: torch.fx.symbolic_trace beside torch.export, node by node.

Usage::

    python examples/explore_fx_graph.py
"""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import nn
from torch.fx.passes.shape_prop import ShapeProp

import torch_atalla

WHY = """\
Why they differ: symbolic_trace runs forward() with proxies and records the Python calls that it sees. A module of
torch.nn is a leaf to it: what it records is "call the module linear"; what happens inside stays Python. torch.export
runs the same code with fake tensors and records what reaches the dispatcher: ATen ops with their overloads, parameters
lifted to inputs, a shape and dtype at each node. A compiler needs the second: every node names an op with a schema,
which a chip has or has not."""


class LinearRelu(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 4)
        self.relu = nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.relu(self.linear(x))


def shape_of(node: torch.fx.Node) -> Any:
    """From torch.export's fake tensor, from ShapeProp's record, or None when the node carries neither."""
    value = node.meta.get("val", node.meta.get("tensor_meta"))
    return list(value.shape) if hasattr(value, "shape") else None


def print_graph(title: str, graph: torch.fx.Graph) -> None:
    print(f"\n== {title}")
    for node in graph.nodes:
        print(f"{node.name}\n  op {node.op}, target {node.target}")
        print(f"  args {node.args}, kwargs {dict(node.kwargs)}, shape {shape_of(node)}")


@torch.no_grad()
def main() -> None:
    warnings.filterwarnings("ignore", category=FutureWarning, module="copyreg")  # torch.export copying its own trees
    torch.manual_seed(0)
    torch_atalla.fallback.mode("error")
    model, x = LinearRelu().eval(), torch.randn(2, 8)

    traced = torch.fx.symbolic_trace(model)
    assert all(shape_of(node) is None for node in traced.graph.nodes), "symbolic_trace alone knows no shapes"
    ShapeProp(traced).propagate(x)
    print_graph("torch.fx.symbolic_trace, shapes added by ShapeProp", traced.graph)

    exported = torch.export.export(model, (x,))
    print_graph("torch.export", exported.graph)
    print(f"\n{WHY}\n")

    modules = [str(node.target) for node in traced.graph.nodes if node.op == "call_module"]
    ops = [str(node.target) for node in exported.graph.nodes if node.op == "call_function"]
    assert modules == ["linear", "relu"], modules
    assert ops == ["aten.linear.default", "aten.relu.default"], ops
    assert not any(node.op == "call_module" for node in exported.graph.nodes)
    assert [shape_of(node) for node in exported.graph.nodes if node.op == "call_function"] == [[2, 4], [2, 4]]

    expected = model(x)
    for name, program in (("symbolic_trace", traced), ("torch.export", exported.module())):
        found = program.to("atalla")(x.to("atalla"))
        torch.testing.assert_close(found.cpu(), expected, rtol=1e-5, atol=1e-5)
        print(f"{name} on atalla: shape {list(found.shape)}, sum {found.sum():.4f}; on the CPU {expected.sum():.4f}")
    print(f"ok: symbolic_trace gives call_module {modules}, torch.export gives {ops}")


if __name__ == "__main__":
    main()
