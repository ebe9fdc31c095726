# SPDX-License-Identifier: BSD-3-Clause
"""What the pattern passes share: questions about nodes, and new nodes."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Collection
from typing import Any

import torch
from torch.fx.node import map_arg

from torch_atalla.driver.dtypes import CODES

from ...capture.capture import Captured, Constant
from ..pass_result import PassResult

aten = torch.ops.aten
Pass = Callable[..., PassResult]

ATTENTION = aten.scaled_dot_product_attention.default
RESHAPES = {aten.view.default, aten.reshape.default, aten._unsafe_view.default}


def node_pass(*targets: Any) -> Callable[[Callable[..., bool | str]], Pass]:
    """A pass of this name, which visits the nodes that call one of the targets. The function is given the graph, the
    node and the pass's options. It returns whether it changed the node, or the name of the one that it changed."""

    def decorate(change: Callable[..., bool | str]) -> Pass:
        @functools.wraps(change)
        def run(captured: Captured, **options: Any) -> PassResult:
            changed = []
            for node in [node for node in captured.graph.nodes if node.target in targets]:
                found = change(captured, node, **options)
                if found:
                    changed.append(node.name if found is True else str(found))
            return PassResult(change.__name__, tuple(changed))

        return run

    return decorate


def value(node: Any) -> torch.Tensor:
    """The (fake) tensor that stands for the node's value. Give only nodes with `is_tensor`."""
    return node.meta["val"]


def is_tensor(node: Any) -> bool:
    return isinstance(node, torch.fx.Node) and isinstance(node.meta.get("val"), torch.Tensor)


def is_static(node: Any) -> bool:
    return is_tensor(node) and all(type(size) is int for size in value(node).shape)


def shape(node: Any) -> tuple[int, ...]:
    return tuple(value(node).shape)


def is_floating_cast(node: Any) -> bool:
    """A conversion between floating-point types, and nothing else."""
    return (
        is_tensor(node)
        and node.target is aten._to_copy.default
        and value(node).is_floating_point()
        and value(node.args[0]).is_floating_point()
        and value(node).dtype in CODES
    )


def operands(node: torch.fx.Node) -> list[tuple[Any, Any]]:
    """The two operands of a commutative operation in both orders; none for `add` with a factor."""
    if node.kwargs.get("alpha", 1) != 1 or len(node.args) != 2:
        return []
    first, second = node.args
    return [(first, second), (second, first)]


def constant_value(captured: Captured, node: Any) -> torch.Tensor | None:
    """The value of a constant that no parameter or buffer went into, or of a view of one."""
    if not isinstance(node, torch.fx.Node):
        return None
    constant = captured.constants.get(node.name)
    if constant is not None:
        return constant.tensor if constant.kind == "constant" and not constant.made_of else None
    if not isinstance(node.target, torch._ops.OpOverload) or not (node.target.is_view or node.target in RESHAPES):
        return None
    source = constant_value(captured, node.args[0])
    if source is None or any(arg is not node.args[0] for arg in node.all_input_nodes):
        return None
    op = aten.reshape.default if node.target in RESHAPES else node.target
    return op(source, *node.args[1:], **node.kwargs)


def number(captured: Captured, arg: Any) -> float | None:
    """A Python number, or the only element of a constant."""
    if isinstance(arg, (int, float)) and not isinstance(arg, bool):
        return float(arg)
    known = constant_value(captured, arg)
    if known is None or known.numel() != 1 or known.is_complex():
        return None
    return float(known)


def argument(node: torch.fx.Node, index: int = 0) -> Any:
    return node.args[index]


def only_user(node: torch.fx.Node) -> torch.fx.Node | None:
    return next(iter(node.users)) if len(node.users) == 1 else None


def reads_first_alone(node: torch.fx.Node) -> bool:
    """Whether only the first of the node's results is read."""
    return all(user.target is operator.getitem and user.args[1] == 0 for user in node.users)


def replace_first_result(captured: Captured, node: torch.fx.Node, result: torch.fx.Node) -> None:
    """`result` stands in for the first result of the node, of which nothing else is read; the node goes."""
    for user in list(node.users):
        user.replace_all_uses_with(result)
        captured.graph.erase_node(user)
    captured.graph.erase_node(node)


def are_private(nodes: Collection[torch.fx.Node], result: torch.fx.Node) -> bool:
    """Whether nobody but the nodes themselves reads any of them, `result` aside."""
    return all(user in nodes for node in nodes if node is not result for user in node.users)


def new_node(
    captured: Captured, op: torch._ops.OpOverload, args: tuple, kwargs: dict[str, Any], like: torch.fx.Node, meta: Any
) -> torch.fx.Node:
    """A node at the insertion point, which stands in for `like` (whose source line it takes over)."""
    node = captured.graph.call_function(op, args, kwargs)
    node.meta = {key: item for key, item in like.meta.items() if key != "val"}
    node.meta["val"] = meta
    return node


def new_view(captured: Captured, op: torch._ops.OpOverload, source: torch.fx.Node, *args: Any) -> torch.fx.Node:
    """A view; its sizes are those that upstream's op gives a contiguous tensor."""
    dense = torch.empty(shape(source), dtype=value(source).dtype, device="meta")
    return new_node(captured, op, (source, *args), {}, source, op(dense, *args))


def new_constant(
    captured: Captured, name: str, tensor: torch.Tensor, made_of: frozenset[str] = frozenset()
) -> torch.fx.Node:
    """`made_of`: names of the parameters and buffers that went into it."""
    captured.graph_module.register_buffer(name, tensor, persistent=False)
    node = captured.graph.get_attr(name)
    node.meta["val"] = torch.empty_like(tensor, device="meta")
    captured.constants[node.name] = Constant(tensor, "constant", made_of=made_of)
    return node


def computed_meta(op: torch._ops.OpOverload, *args: Any, **kwargs: Any) -> torch.Tensor:
    """What the op gives for meta tensors of the nodes' sizes and dtypes."""

    def meta(node: torch.fx.Node) -> torch.Tensor:
        return torch.empty(shape(node), dtype=value(node).dtype, device="meta")

    return op(*map_arg(args, meta), **map_arg(kwargs, meta))
