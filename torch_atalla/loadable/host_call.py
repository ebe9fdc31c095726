# SPDX-License-Identifier: BSD-3-Clause
"""Fallback segments: nodes as JSON text, which torch executes on CPU tensors.

{"inputs": n, "nodes": [{"op": "aten::sort.stable", "args": [...], "kwargs": {...}}, ...], "outputs": [value, ...]}

An op without a namespace is a function of Python's operator module: getitem, or arithmetic on sizes.

Values are numbered: the inputs first, then one per node. In arguments, {"v": k} is value k. {"dtype": "float32"},
{"device": "cpu"}, {"memory_format": "contiguous_format"}, {"layout": "strided"}, {"float": "inf"} and
{"complex": [real, imaginary]} represent values that JSON cannot. Lists, numbers, strings, booleans and null represent
themselves.

A file is data from elsewhere. So a text is read completely before anything runs, and its operators are those of
host_operators.py.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from torch_atalla.driver import runtime
from torch_atalla.driver.dtypes import DTYPES, from_name
from torch_atalla.driver.dtypes import name as dtype_name
from torch_atalla.driver.runtime import TensorRef

from .errors import MALFORMED, LoadableError
from .host_operators import UNINITIALIZED, check_argument, refusal

GETITEM = "getitem"

# Arithmetic on sizes that torch.export leaves in graphs whose inner shapes depend on data.
SIZE_ARITHMETIC = (
    *("add", "sub", "mul", "floordiv", "mod", "neg"),
    *("eq", "ne", "lt", "le", "gt", "ge", "and_", "or_", "not_"),
)

_LAYOUTS = {"strided": torch.strided}
_MEMORY_FORMATS = {
    str(each).removeprefix("torch."): each
    for each in (torch.contiguous_format, torch.preserve_format, torch.channels_last, torch.channels_last_3d)
}


@dataclass(frozen=True)
class _Reference:
    """An argument that is a value of the segment, by its number."""

    number: int


@dataclass(frozen=True)
class _Step:
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class Segment:
    """A host call whose text was read and checked.

    text: the JSON. operators: patterns of the names of operators that the caller allows beside the pure ones. Raises
    LoadableError for a text that is not a segment, and for an operator that host calls do not run.
    """

    def __init__(self, text: str, operators: Sequence[str] = ()):
        self._operators = operators
        try:
            data = json.loads(text)
            inputs, nodes, outputs = data["inputs"], data["nodes"], data["outputs"]
            self.inputs = _number(inputs, None)
            self._steps: list[_Step] = []
            self.refused: dict[str, str] = {}  # operators that the rule does not allow, with the reason
            for record in nodes:
                self._steps.append(self._step(record["op"], record["args"], record["kwargs"]))
            self._outputs = [_number(k, self._values) for k in outputs]
        except MALFORMED as error:
            raise LoadableError(f"a host call is not a list of nodes: {type(error).__name__}: {error}") from None

    @property
    def _values(self) -> int:
        return self.inputs + len(self._steps)

    def _step(self, name: str, args: list[Any], kwargs: dict[str, Any]) -> _Step:
        given = tuple(self._decode(arg) for arg in args)
        named = {key: self._decode(arg) for key, arg in kwargs.items()}
        if name == GETITEM:
            return _Step(_part, given, named)
        if name in SIZE_ARITHMETIC:
            return _Step(_sizes(name), given, named)
        op = find_op(name)
        if (reason := refusal(op, self._operators)) is not None:
            self.refused[name] = reason
            return _Step(op, given, named)
        parameters = [argument.name for argument in op._schema.arguments]
        for parameter, value in [*zip(parameters, given), *named.items()]:
            check_argument(op, parameter, value, self._operators)
        if len(given) > len(parameters) or not named.keys() <= set(parameters):
            raise LoadableError(f"a host call gives {name} other arguments than those of {op._schema}")
        return _Step(_zeros(op) if op._schema.name.removeprefix("aten::") in UNINITIALIZED else op, given, named)

    def _decode(self, arg: Any) -> Any:
        if isinstance(arg, list):
            return [self._decode(item) for item in arg]
        if not isinstance(arg, dict):
            return arg
        ((kind, value),) = arg.items()
        if kind == "v":
            return _Reference(_number(value, self._values))
        if kind == "dtype":
            return from_name(value)
        if kind == "float":
            return float(value)
        if kind == "complex":
            return complex(float(value[0]), float(value[1]))
        if kind == "device" and value == "cpu":
            return torch.device("cpu")
        if kind == "layout" and value in _LAYOUTS:
            return _LAYOUTS[value]
        if kind == "memory_format" and value in _MEMORY_FORMATS:
            return _MEMORY_FORMATS[value]
        raise LoadableError(f"a host call has the argument {str(arg)[:60]}, which is no tensor, number or enumeration")

    def run(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Run the nodes on CPU tensors and return the outputs."""
        if self.refused:
            raise LoadableError(_refused(self.refused))
        if self.inputs != len(inputs):
            raise LoadableError(f"the host call takes {self.inputs} tensors, got {len(inputs)}")
        values: list[Any] = list(inputs)
        for step in self._steps:
            args = [_filled(arg, values) for arg in step.args]
            values.append(step.function(*args, **{key: _filled(arg, values) for key, arg in step.kwargs.items()}))
        results = [values[k] for k in self._outputs]
        for k, result in enumerate(results):
            if not isinstance(result, torch.Tensor) or result.layout is not torch.strided or result.is_quantized:
                raise LoadableError(f"a host call gives a {type(result).__name__} as result {k}, expected a tensor")
        return results


class HostCalls:
    """The host calls of a program: checked at load, run by their text.

    texts: the JSON of each. operators: as in load_loadable. Raises LoadableError, which names every operator that is
    refused.
    """

    def __init__(self, texts: Iterable[str], operators: Sequence[str] = ()):
        self._segments = {text: Segment(text, operators) for text in texts}
        refused: dict[str, str] = {}
        for segment in self._segments.values():
            refused |= segment.refused
        if refused:
            raise LoadableError(_refused(refused))

    @staticmethod
    def attach(program: runtime.Program, device: int, operators: Sequence[str] = ()) -> None:
        """Let the program run its host calls. Before `load`, so that a program that is refused takes no memory."""
        texts = [call["program"] for call in program.describe()["host_calls"]]
        calls = HostCalls(texts, operators)
        if texts:
            program.set_host_call(lambda text, inputs, outputs: calls.run(device, text, inputs, outputs))

    def run(self, device: int, text: str, inputs: list[TensorRef], outputs: list[TensorRef]) -> None:
        """Run a segment on host copies of its inputs. Its outputs are dense: each is written with one copy."""
        results = self._segments[text].run([_to_host(device, ref) for ref in inputs])
        for k, (ref, result) in enumerate(zip(outputs, results, strict=True)):
            if tuple(result.shape) != ref.sizes or result.dtype != DTYPES[ref.dtype]:
                raise LoadableError(
                    f"a fallback segment gave {dtype_name(result.dtype)}{list(result.shape)} as its result {k}, "
                    f"expected {dtype_name(DTYPES[ref.dtype])}{list(ref.sizes)}"
                )
            host = torch.empty_strided(ref.sizes, ref.strides, dtype=result.dtype).copy_(result)
            runtime.copy_to_device(device, ref.addr, host.data_ptr(), host.numel() * host.itemsize)


def _refused(refused: dict[str, str]) -> str:
    reasons = "; ".join(f"{name} {reason}" for name, reason in refused.items())
    patterns = list(dict.fromkeys(n if n.startswith("aten::") else f"{n.partition('::')[0]}::*" for n in refused))
    return (
        f"host calls of the file run operators that are not known to be pure: {reasons}. If you trust the file with "
        f"them, allow them: load_loadable(..., operators={patterns})"
    )


def find_op(qualified: str) -> torch._ops.OpOverload:
    """Return the overload with a qualified name like "aten::sort.stable". Operators of TorchScript alone, which have no
    kernels, are none."""
    namespace, _, rest = qualified.partition("::")
    packet, _, overload = rest.partition(".")
    found = getattr(getattr(getattr(torch.ops, namespace, None), packet, None), overload or "default", None)
    if isinstance(found, torch._ops.OpOverload) and found.name() == qualified:
        if torch._C._dispatch_has_kernel(qualified):
            return found
    own = f"import the library that defines {namespace}::{packet} (option --import of the commands)"
    add = own if namespace != "aten" else "use a newer PyTorch"
    raise LoadableError(f"this process (torch {torch.__version__}) has no operator {qualified}: {add}")


def _number(value: Any, below: int | None) -> int:
    if type(value) is not int or value < 0 or (below is not None and value >= below):
        raise ValueError(f"expected the number of a value, found {str(value)[:40]}")
    return value


def _filled(arg: Any, values: list[Any]) -> Any:
    if isinstance(arg, _Reference):
        return values[arg.number]
    return [_filled(item, values) for item in arg] if isinstance(arg, list) else arg


def _part(several: Any, index: Any) -> Any:
    if not isinstance(several, (list, tuple)) or type(index) is not int:
        raise LoadableError(f"a host call takes part {index!r} of a {type(several).__name__}, expected several results")
    return several[index]


def _sizes(name: str) -> Callable[..., Any]:
    """Arithmetic on sizes, within 64 bits: the file chooses the numbers."""
    function = getattr(operator, name)

    def compute(*numbers: Any) -> Any:
        if not all(isinstance(n, (int, float)) and (isinstance(n, float) or abs(n) < 2**63) for n in numbers):
            raise LoadableError(f"a host call computes {name} of {', '.join(type(n).__name__ for n in numbers)}")
        return function(*numbers)

    return compute


def _zeros(op: torch._ops.OpOverload) -> Callable[..., torch.Tensor]:
    return lambda *args, **kwargs: op(*args, **kwargs).zero_()


def _to_host(device: int, ref: TensorRef) -> torch.Tensor:
    dtype = DTYPES[ref.dtype]
    if 0 in ref.sizes:
        return torch.empty(ref.sizes, dtype=dtype)
    elements = 1 + sum((size - 1) * stride for size, stride in zip(ref.sizes, ref.strides))
    flat = torch.empty(elements, dtype=dtype)
    runtime.copy_from_device(device, flat.data_ptr(), ref.addr, elements * flat.itemsize)
    return flat.as_strided(ref.sizes, ref.strides)
