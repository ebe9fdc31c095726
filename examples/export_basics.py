# SPDX-License-Identifier: BSD-3-Clause
"""torch.export by example
=======================

What torch.export gives: three small models, their nodes, ATen ops, generated code, output shapes and sums.

Usage::

    python examples/export_basics.py

Each model runs three times: as it is and as the exported graph on the CPU, and as the exported graph on atalla. The
three must agree.
"""

from __future__ import annotations

import warnings
from collections import Counter

import torch
from torch import nn

import torch_atalla


class MatmulRelu(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.relu(x @ y)


class ReluMatmulSoftmax(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.softmax(torch.relu(x) @ y, dim=-1)


class SinCos(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x) + torch.cos(x)


MODELS: list[tuple[nn.Module, tuple[torch.Size, ...], Counter[str]]] = [
    (
        MatmulRelu(),
        (torch.Size([128, 64]), torch.Size([64, 128])),
        Counter(["aten.matmul.default", "aten.relu.default"]),
    ),
    (
        ReluMatmulSoftmax(),
        (torch.Size([4, 8]), torch.Size([8, 16])),
        Counter(["aten.relu.default", "aten.matmul.default", "aten.softmax.int"]),
    ),
    (SinCos(), (torch.Size([16, 16]),), Counter(["aten.sin.default", "aten.cos.default", "aten.add.Tensor"])),
]


def shape_of(node: torch.fx.Node) -> str:
    value = node.meta.get("val")
    return str(list(value.shape)) if isinstance(value, torch.Tensor) else ""


def print_nodes(graph: torch.fx.Graph) -> None:
    print("nodes:")
    for node in graph.nodes:
        inputs = ", ".join(str(argument) for argument in node.all_input_nodes)
        print(f"  {node.op:<14} {node.name:<10} {str(node.target):<22} <- {inputs or '-':<14} {shape_of(node)}")


def print_ops(ops: Counter[str], title: str) -> None:
    print(title)
    for op, count in sorted(ops.items()):
        print(f"  {op:<22} {count}")


def aten_ops(graph: torch.fx.Graph) -> Counter[str]:
    return Counter(str(node.target) for node in graph.nodes if node.op == "call_function")


def show(model: nn.Module, inputs: tuple[torch.Tensor, ...], expected_ops: Counter[str]) -> None:
    name = type(model).__name__
    print(f"\n== {name}({', '.join(str(list(x.shape)) for x in inputs)})")
    exported = torch.export.export(model, inputs)
    print_nodes(exported.graph)
    ops = aten_ops(exported.graph)
    print_ops(ops, "ATen ops as captured:")
    assert ops == expected_ops, f"{name}: expected {dict(expected_ops)}, captured {dict(ops)}"
    core = exported.run_decompositions()
    print_ops(aten_ops(core.graph), "after decomposition to core ATen:")
    print("generated code:")
    print("\n".join("  " + line for line in exported.graph_module.code.strip().splitlines()))

    expected = model(*inputs)
    on_cpu = exported.module()(*inputs)
    on_atalla = exported.module()(*(x.to("atalla") for x in inputs))
    assert on_atalla.device.type == "atalla" and on_atalla.shape == expected.shape == on_cpu.shape
    torch.testing.assert_close(on_cpu, expected, rtol=0, atol=0)
    torch.testing.assert_close(on_atalla.cpu(), expected, rtol=1e-5, atol=1e-5)
    print(
        f"output: shape {list(on_atalla.shape)}, sum {on_atalla.sum():.4f} on atalla, {expected.sum():.4f} on the CPU"
    )
    if isinstance(model, ReluMatmulSoftmax):  # each row of a softmax sums to 1
        assert abs(on_atalla.sum().item() - inputs[0].shape[0]) < 1e-5


@torch.no_grad()
def main() -> None:
    warnings.filterwarnings("ignore", category=FutureWarning, module="copyreg")  # torch.export copying its own trees
    torch.manual_seed(0)
    torch_atalla.fallback.mode("error")
    for model, shapes, ops in MODELS:
        show(model, tuple(torch.randn(shape) for shape in shapes), ops)
    print(f"\nok: {len(MODELS)} models, captured as expected, equal on the CPU and on atalla")


if __name__ == "__main__":
    main()
