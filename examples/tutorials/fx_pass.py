# SPDX-License-Identifier: BSD-3-Clause
"""A pass over an FX graph: how to print a graph, and replace divisions by constants with multiplications.

python examples/tutorials/fx_pass.py

A pass is a function over the graph of an exported program. Run it before `save_loadable` or in a torch.compile backend.
"""

import tempfile
from pathlib import Path

import torch

import torch_atalla

aten = torch.ops.aten


class Scores(torch.nn.Module):
    """Attention scores of queries and keys of width 64."""

    def forward(self, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        return torch.softmax(query @ key.transpose(-2, -1) / 8.0, dim=-1)


def show(title: str, graph: torch.fx.Graph) -> None:
    print(title)
    for node in graph.nodes:
        if node.op == "call_function":
            print(f"  {node.name:10} {str(node.target):28} {list(node.meta['val'].shape)}")


def multiply_by_reciprocal(graph: torch.fx.Graph) -> int:
    """Replace x / c by x * (1 / c) where c is a power of two, which gives the same bits. Returns the replacements."""
    count = 0
    for node in list(graph.find_nodes(op="call_function", target=aten.div.Tensor)):
        divisor = node.args[1]
        if isinstance(divisor, float) and divisor > 0 and divisor.hex().startswith("0x1.0000000000000p"):
            with graph.inserting_before(node):
                product = graph.call_function(aten.mul.Tensor, (node.args[0], 1 / divisor))
            product.meta = dict(node.meta)
            node.replace_all_uses_with(product)
            graph.erase_node(node)
            count += 1
    graph.lint()
    return count


query, key = torch.randn(2, 16, 64), torch.randn(2, 16, 64)
program = torch.export.export(Scores().eval(), (query, key))
expected = program.module()(query, key)
show("before", program.graph)
print("replaced:", multiply_by_reciprocal(program.graph))
program.graph_module.recompile()
show("after", program.graph)
print("the same bits on the CPU:", torch.equal(program.module()(query, key), expected))

path = Path(tempfile.mkdtemp()) / "scores.atl"
torch_atalla.save_loadable(program, path, fallback="error")
run = torch_atalla.load_loadable(path, device="atalla")
found = run(query.to("atalla"), key.to("atalla")).cpu()
print("on the device:", torch.allclose(found, expected, atol=1e-6))
