# SPDX-License-Identifier: BSD-3-Clause
"""Fallback segments as text: nodes in JSON, which torch executes on CPU tensors.

{"inputs": n, "nodes": [{"op": "aten::sort.stable", "args": [...], "kwargs": {...}}, ...], "outputs": [value, ...]}

An op without a namespace is a function of Python's operator module: getitem, or arithmetic on sizes.

Values are numbered: the inputs first, then one a node. In arguments {"v": k} is value k, {"dtype": "float32"},
{"device": "cpu"}, {"memory_format": "contiguous_format"}, {"layout": "strided"}, {"float": "inf"} stand for what JSON
has no form for; lists, numbers, strings, booleans and null for themselves.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable
from typing import Any

import torch

from .dtypes import from_name
from .dtypes import name as dtype_name
from .errors import ExportError
from .ir import HostCall
from .support import qualified_name

_GETITEM = "getitem"

# Arithmetic on sizes, as torch.export leaves it in graphs whose inner shapes depend on data.
_SIZE_ARITHMETIC = (
    *("add", "sub", "mul", "floordiv", "mod", "neg"),
    *("eq", "ne", "lt", "le", "gt", "ge", "and_", "or_", "not_"),
)


def encode_segment(nodes: list[torch.fx.Node], inputs: list[torch.fx.Node], outputs: list[torch.fx.Node]) -> HostCall:
    """The segment as a host call whose operands the caller fills in."""
    numbers = {node: k for k, node in enumerate(inputs)}
    records: list[dict[str, Any]] = []
    for node in nodes:
        for arg in node.all_input_nodes:
            if arg not in numbers and isinstance(arg.meta.get("val"), torch.Tensor):
                raise ExportError(f"node {node.name} reads {arg.name}, which its segment does not have")
        op = _op_name(node)
        records.append(
            {
                "op": op,
                "args": [_encode(arg, numbers) for arg in node.args],
                "kwargs": {key: _encode(arg, numbers) for key, arg in node.kwargs.items()},
            }
        )
        numbers[node] = len(numbers)
    program = {"inputs": len(inputs), "nodes": records, "outputs": [numbers[node] for node in outputs]}
    ops = dict.fromkeys(record["op"] for record in records if "::" in record["op"])
    return HostCall(
        program=json.dumps(program, separators=(",", ":")),
        ops=tuple(ops),
        inputs=(),
        outputs=(),
        input_names=tuple(node.name for node in inputs),
        output_names=tuple(node.name for node in outputs),
        node=nodes[0].name,
    )


def run_segment(program: str, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    """Runs the nodes on CPU tensors and gives the outputs."""
    data = json.loads(program)
    if data["inputs"] != len(inputs):
        raise ExportError(f"the host call takes {data['inputs']} tensors, got {len(inputs)}")
    values: list[Any] = list(inputs)
    for record in data["nodes"]:
        args = [_decode(arg, values) for arg in record["args"]]
        kwargs = {key: _decode(arg, values) for key, arg in record["kwargs"].items()}
        values.append(_function(record["op"])(*args, **kwargs))
    return [values[k] for k in data["outputs"]]


def _op_name(node: torch.fx.Node) -> str:
    if isinstance(node.target, torch._ops.OpOverload):
        return qualified_name(node.target)
    name = getattr(node.target, "__name__", "")
    if name == _GETITEM or name in _SIZE_ARITHMETIC and node.target is getattr(operator, name):
        return name
    raise ExportError(f"node {node.name}: {node.target} is no operator of a library; a host call cannot carry it")


def _function(op: str) -> Callable[..., Any]:
    if op == _GETITEM or op in _SIZE_ARITHMETIC:
        return getattr(operator, op)
    return find_op(op)


def find_op(qualified: str) -> torch._ops.OpOverload:
    """The overload that "aten::sort.stable" names."""
    namespace, _, rest = qualified.partition("::")
    packet, _, overload = rest.partition(".")
    found = getattr(getattr(getattr(torch.ops, namespace, None), packet, None), overload or "default", None)
    if not isinstance(found, torch._ops.OpOverload):
        raise ExportError(f"this PyTorch ({torch.__version__}) has no operator {qualified}")
    return found


def _encode(arg: Any, numbers: dict[torch.fx.Node, int]) -> Any:
    if isinstance(arg, torch.fx.Node):
        if arg not in numbers:
            raise ExportError(f"the value {arg.name} is no tensor; a host call cannot carry it")
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
    raise ExportError(f"an argument of type {type(arg).__name__} cannot stand in a host call")


def _decode(arg: Any, values: list[Any]) -> Any:
    if isinstance(arg, list):
        return [_decode(item, values) for item in arg]
    if not isinstance(arg, dict):
        return arg
    ((kind, value),) = arg.items()
    if kind == "v":
        return values[value]
    if kind == "dtype":
        return from_name(value)
    if kind == "float":
        return float(value)
    if kind == "complex":
        return complex(float(value[0]), float(value[1]))
    if kind == "device":
        return torch.device(value)
    if kind in ("layout", "memory_format"):
        return getattr(torch, value)
    raise ExportError(f"a host call with an argument of unknown kind {kind!r}")
