# SPDX-License-Identifier: BSD-3-Clause
"""Evaluates on the CPU what does not depend on the caller's inputs: masks, position ids, index arithmetic.

A program must give the bits that eager mode gives on the chip. So by default only such nodes are folded where the CPU
and the chip agree in every bit: results that are integers or bools, data movement, and operations that IEEE 754 rounds
correctly. A sine of positions stays a launch.

Views of constants stay views: they cost nothing, and a weight is stored once however often it is seen transposed.
"""

from __future__ import annotations

import torch
from torch.fx.experimental.symbolic_shapes import guard_or_true
from torch.fx.node import map_arg

from torch_atalla.driver.dtypes import CODES

from ...capture.capture import Captured, Constant
from ...lower.factories import EMPTY
from ...program.layouts import dense_meta
from ...program.support import overloads
from ..pass_result import PassResult

aten = torch.ops.aten

_EXACT_FLOATING = overloads(
    "abs", "add.Tensor", "sub.Tensor", "mul.Tensor", "div.Tensor", "neg", "sqrt", "maximum", "minimum", "relu",
    "clamp", "where.self", "masked_fill.Scalar", "masked_fill.Tensor", "full", "scalar_tensor", "_to_copy", "cat",
    "constant_pad_nd", "embedding", "index.Tensor", "index_select", "gather", "flip", "roll", "scatter.value",
    "reflection_pad1d", "reflection_pad2d", "reflection_pad3d", "replication_pad1d", "replication_pad2d",
    "replication_pad3d", "tril", "triu", "repeat", "amax", "amin",
)  # fmt: skip

# A folded result is stored in the file; a larger one is cheaper to compute on the chip.
_MAX_BYTES = 64 << 20


def fold_constants(captured: Captured, *, exact_only: bool = True) -> PassResult:
    graph = captured.graph
    known: dict[torch.fx.Node, torch.Tensor | tuple | list] = {
        node: captured.constants[node.name].tensor for node in graph.nodes if node.name in captured.constants
    }
    made_of = {node: _names(captured.constants[node.name]) for node in known}
    folded: list[torch.fx.Node] = []
    for node in graph.nodes:
        if node.op != "call_function" or not all(arg in known for arg in node.all_input_nodes):
            continue
        if not _is_view(node) and not _may_fold(node, exact_only):
            continue
        args = map_arg(node.args, lambda arg: known[arg])
        kwargs = map_arg(node.kwargs, lambda arg: known[arg])
        with torch.no_grad():
            # A clone in between may be gone already (remove_identities): then a view is a copy.
            op = aten.reshape.default if node.target is aten.view.default else node.target
            known[node] = op(*args, **kwargs)
        made_of[node] = frozenset().union(*(made_of[arg] for arg in node.all_input_nodes))
        if not _is_view(node):
            folded.append(node)

    foldable = set(folded)
    for node in folded:
        # Folded nodes that only feed folded nodes die with them; the rest become constants.
        if all(user in foldable for user in node.users):
            continue
        value = known[node]
        assert isinstance(value, torch.Tensor)
        _replace(captured, node, value, made_of[node])
    names = tuple(node.name for node in folded)
    for node in reversed(folded):
        if not node.users:
            graph.erase_node(node)
    return PassResult("fold_constants", names)


def _names(constant: Constant) -> frozenset[str]:
    return constant.made_of | ({constant.fqn} if constant.kind != "constant" else set())


def _replace(captured: Captured, node: torch.fx.Node, value: torch.Tensor, made_of: frozenset[str]) -> None:
    name, meta = f"folded_{node.name}", dense_meta(node.meta["val"])
    value = torch.empty_strided(meta.shape, meta.stride(), dtype=value.dtype).copy_(value)
    captured.graph_module.register_buffer(name, value, persistent=False)
    with captured.graph.inserting_before(node):
        attr = captured.graph.get_attr(name)
    attr.meta["val"] = meta
    captured.constants[attr.name] = Constant(value, "constant", made_of=made_of)
    node.replace_all_uses_with(attr)


def _is_view(node: torch.fx.Node) -> bool:
    """Whether a node only picks from, or looks anew at, what its input holds."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return True  # getitem
    return node.target.is_view or node.target is aten.reshape.default


def _may_fold(node: torch.fx.Node, exact_only: bool) -> bool:
    op, value = node.target, node.meta.get("val")
    if not isinstance(op, torch._ops.OpOverload) or not isinstance(value, torch.Tensor) or node.is_impure():
        return False
    if torch.Tag.nondeterministic_seeded in op.tags or op in EMPTY:
        return False
    if value.dtype not in CODES or guard_or_true(value.numel() * value.dtype.itemsize > _MAX_BYTES):
        return False
    if value.is_floating_point() or value.is_complex():
        if exact_only and op not in _EXACT_FLOATING:
            return False
        # alpha * other may be contracted into one rounding on the CPU.
        return not exact_only or bool(node.kwargs.get("alpha", 1) == 1)
    return True
