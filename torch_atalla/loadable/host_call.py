# SPDX-License-Identifier: BSD-3-Clause
"""Fallback segments: nodes as JSON text, which torch executes on CPU tensors.

{"inputs": n, "nodes": [{"op": "aten::sort.stable", "args": [...], "kwargs": {...}}, ...], "outputs": [value, ...]}

An op without a namespace is a function of Python's operator module: getitem, or arithmetic on sizes.

Values are numbered: the inputs first, then one per node. In arguments, {"v": k} is value k. {"dtype": "float32"},
{"device": "cpu"}, {"memory_format": "contiguous_format"}, {"layout": "strided"}, {"float": "inf"} and
{"complex": [real, imaginary]} represent values that JSON cannot. Lists, numbers, strings, booleans and null represent
themselves.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable
from typing import Any

import torch

from torch_atalla.driver import runtime
from torch_atalla.driver.dtypes import DTYPES, from_name
from torch_atalla.driver.dtypes import name as dtype_name
from torch_atalla.driver.runtime import TensorRef

from .errors import ExportError, LoadableError

GETITEM = "getitem"

# Arithmetic on sizes that torch.export leaves in graphs whose inner shapes depend on data.
SIZE_ARITHMETIC = (
    *("add", "sub", "mul", "floordiv", "mod", "neg"),
    *("eq", "ne", "lt", "le", "gt", "ge", "and_", "or_", "not_"),
)


def run_segment(program: str, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    """Run the nodes on CPU tensors and return the outputs."""
    data = json.loads(program)
    if data["inputs"] != len(inputs):
        raise ExportError(f"the host call takes {data['inputs']} tensors, got {len(inputs)}")
    values: list[Any] = list(inputs)
    for record in data["nodes"]:
        args = [_decode(arg, values) for arg in record["args"]]
        kwargs = {key: _decode(arg, values) for key, arg in record["kwargs"].items()}
        values.append(_function(record["op"])(*args, **kwargs))
    return [values[k] for k in data["outputs"]]


def _function(op: str) -> Callable[..., Any]:
    if op == GETITEM or op in SIZE_ARITHMETIC:
        return getattr(operator, op)
    return find_op(op)


def find_op(qualified: str) -> torch._ops.OpOverload:
    """Return the overload with a qualified name like "aten::sort.stable"."""
    namespace, _, rest = qualified.partition("::")
    packet, _, overload = rest.partition(".")
    found = getattr(getattr(getattr(torch.ops, namespace, None), packet, None), overload or "default", None)
    if not isinstance(found, torch._ops.OpOverload):
        raise ExportError(f"this PyTorch ({torch.__version__}) has no operator {qualified}")
    return found


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


def run_host_call(device: int, text: str, inputs: list[TensorRef], outputs: list[TensorRef]) -> None:
    """Run a fallback segment on host copies of its inputs. Its outputs are dense: each is written with one copy."""
    results = run_segment(text, [_to_host(device, ref) for ref in inputs])
    for k, (ref, result) in enumerate(zip(outputs, results, strict=True)):
        if tuple(result.shape) != ref.sizes or result.dtype != DTYPES[ref.dtype]:
            raise LoadableError(
                f"a fallback segment gave {dtype_name(result.dtype)}{list(result.shape)} as its result {k}, expected "
                f"{dtype_name(DTYPES[ref.dtype])}{list(ref.sizes)}"
            )
        host = torch.empty_strided(ref.sizes, ref.strides, dtype=result.dtype).copy_(result)
        runtime.copy_to_device(device, ref.addr, host.data_ptr(), host.numel() * host.itemsize)


def _to_host(device: int, ref: TensorRef) -> torch.Tensor:
    dtype = DTYPES[ref.dtype]
    if 0 in ref.sizes:
        return torch.empty(ref.sizes, dtype=dtype)
    elements = 1 + sum((size - 1) * stride for size, stride in zip(ref.sizes, ref.strides))
    flat = torch.empty(elements, dtype=dtype)
    runtime.copy_from_device(device, flat.data_ptr(), ref.addr, elements * flat.itemsize)
    return flat.as_strided(ref.sizes, ref.strides)
