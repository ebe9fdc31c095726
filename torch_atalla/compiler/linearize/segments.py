# SPDX-License-Identifier: BSD-3-Clause
"""Fallback segments as host calls; loadable/host_call.py has their form, and runs them."""

from __future__ import annotations

import json
import operator
from typing import Any

import torch

from torch_atalla.driver.dtypes import name as dtype_name
from torch_atalla.loadable.errors import ExportError
from torch_atalla.loadable.host_call import GETITEM, SIZE_ARITHMETIC

from ..program.ir import HostCall
from ..program.support import qualified_name


def encode_segment(nodes: list[torch.fx.Node], inputs: list[torch.fx.Node], outputs: list[torch.fx.Node]) -> HostCall:
    """The segment as a host call whose operands the caller fills in."""
    numbers = {node: k for k, node in enumerate(inputs)}
    records: list[dict[str, Any]] = []
    written: dict[torch.fx.Node, list[int | None]] = {}  # calls that change copies of their arguments, to their results
    for node in nodes:
        for arg in node.all_input_nodes:
            if arg not in numbers and isinstance(arg.meta.get("val"), torch.Tensor):
                raise ExportError(f"node {node.name} reads {arg.name}, which its segment does not have")
        if node.target in _FUNCTIONALIZED:
            written[node] = _call_on_copies(node, numbers, records, len(inputs))
            continue
        source: Any = node.args[0] if node.target is operator.getitem else None
        if source in written:  # a part of several results
            place: Any = node.args[1]
            number = written[source][place]
            if number is not None:
                numbers[node] = number
            continue
        op = _op_name(node)
        kwargs = {key: _encode(arg, numbers) for key, arg in node.kwargs.items()}
        records.append({"op": op, "args": [_encode(arg, numbers) for arg in node.args], "kwargs": kwargs})
        numbers[node] = len(inputs) + len(records) - 1
    program = {"inputs": len(inputs), "nodes": records, "outputs": [numbers[node] for node in outputs]}
    ops = dict.fromkeys(record["op"] for record in records if "::" in record["op"])
    text = json.dumps(program, separators=(",", ":"))
    given, results = (tuple(node.name for node in several) for several in (inputs, outputs))
    return HostCall(text, tuple(ops), (), (), given, results, nodes[0].name)


_FUNCTIONALIZED = (torch.ops.higher_order.auto_functionalized, torch.ops.higher_order.auto_functionalized_v2)


def _call_on_copies(
    node: torch.fx.Node, numbers: dict[torch.fx.Node, int], records: list[dict[str, Any]], inputs: int
) -> list[int | None]:
    """A custom operator that changes its arguments, on copies of them. Gives the numbers of its results and of the
    copies, in the order of the node's results."""
    op: Any = node.args[0]
    arguments: dict[str, Any] = dict(node.kwargs)
    name = qualified_name(op)
    bases = arguments.pop("_all_bases", None)

    def add(called: str, *args: Any, **kwargs: Any) -> int:
        records.append({"op": called, "args": list(args), "kwargs": kwargs})
        return inputs + len(records) - 1

    changed = [a.name for a in op._schema.arguments if a.alias_info is not None and a.alias_info.is_write]
    if bases is None:  # the first form names each argument
        bases = [arguments[each] for each in changed]
        arguments |= {f"_{each}_base_index": k for k, each in enumerate(changed)}
    copies = [add("aten::clone", _encode(base, numbers)) for base in bases]
    for each in changed:
        place = arguments.pop(f"_{each}_base_index", None)
        rest = [key for key in arguments if key.startswith(f"_{each}_")]
        if rest or not isinstance(place, int):
            raise ExportError(f"{name} writes to {each}, which is a view or a list; expected a tensor, as clone gives")
        arguments[each] = {"v": copies[place]}
    encoded = {key: arg if key in changed else _encode(arg, numbers) for key, arg in arguments.items()}
    call = add(name, **encoded)
    count = len(op._schema.returns)
    if count == 0:
        return [None, *copies]
    if count == 1:
        return [call, *copies]
    return [*(add(GETITEM, {"v": call}, k) for k in range(count)), *copies]


def _op_name(node: torch.fx.Node) -> str:
    if isinstance(node.target, torch._ops.OpOverload):
        return qualified_name(node.target)
    name = getattr(node.target, "__name__", "")
    if name == GETITEM or name in SIZE_ARITHMETIC and node.target is getattr(operator, name):
        return name
    raise ExportError(f"node {node.name}: {node.target} is not an operator; a file stores host calls of operators only")


def _encode(arg: Any, numbers: dict[torch.fx.Node, int]) -> Any:
    if isinstance(arg, torch.fx.Node):
        if arg not in numbers:
            raise ExportError(f"the value {arg.name} is not a tensor; a file stores host calls on tensors only")
        return {"v": numbers[arg]}
    if isinstance(arg, (list, tuple)):
        return [_encode(item, numbers) for item in arg]
    if arg is None or isinstance(arg, (bool, int, str)):
        return arg
    if isinstance(arg, float):
        return arg if arg == arg and abs(arg) != float("inf") else {"float": repr(arg)}
    if isinstance(arg, complex):
        return {"complex": [repr(arg.real), repr(arg.imag)]}
    if isinstance(arg, torch.dtype):
        return {"dtype": dtype_name(arg)}
    if isinstance(arg, torch.device):
        return {"device": "cpu"}
    if isinstance(arg, (torch.memory_format, torch.layout)):
        return {"layout" if isinstance(arg, torch.layout) else "memory_format": str(arg).removeprefix("torch.")}
    raise ExportError(
        f"a host call has an argument of type {type(arg).__name__}; expected a tensor, number, string, dtype or device"
    )
