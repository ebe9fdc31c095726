# SPDX-License-Identifier: BSD-3-Clause
"""A region of a graph, compiled and loaded on the device."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch

from torch_atalla.compiler.capture.aot_graph import is_tensor, size_port
from torch_atalla.compiler.file.emit import emit
from torch_atalla.compiler.file.functional import resolve_kernels
from torch_atalla.compiler.targets.functional.pipeline import Compiled
from torch_atalla.driver import runtime
from torch_atalla.driver.extension import _C
from torch_atalla.loadable.method import port_types
from torch_atalla.loadable.tensor_spec import TensorSpec, read_spec
from torch_atalla.version import __version__

_DRAWN = "random_positions"


def emit_program(compiled: Compiled) -> bytes:
    """Write the program as a loadable, without the metadata for callers of exported programs."""
    metadata = {"producer": f"torch_atalla {__version__}", "torch": torch.__version__.partition("+")[0]}
    if compiled.program.random_positions:
        metadata[_DRAWN] = str(compiled.program.random_positions)
    return emit(compiled, kernel_versions=resolve_kernels(compiled), crc32c=runtime.crc32c, metadata=metadata)


class CompiledRegion(torch.nn.Module):
    """A compiled function from tensors to a list of tensors.

    `arguments` names the arguments: tensors, and sizes that no tensor has. Tensors that it updates come last.
    """

    def __init__(self, data: bytes, device: torch.device):
        super().__init__()
        self.data = data
        self.program = runtime.Program(data)
        self.program.load(device.index)
        record = self.program.describe()
        self.inputs, self.outputs = (
            [read_spec(record, port) for port in record[what]] for what in ("inputs", "outputs")
        )
        self.host_calls: list[Any] = record["host_calls"]
        written = zip(self.outputs, record["outputs"], strict=True)
        self._written = [spec for spec, port in written if port.get("updated")]  # the last arguments
        self.updated = [spec.name for spec in self._written]
        self.arguments = [spec.name for spec in self.inputs] + self.updated
        drawn = int(record["metadata"].get(_DRAWN, 0))
        ports = port_types(self.inputs), port_types(self.outputs)
        self._run = _C.BoundMethod(self.program.handle, 0, device.index, *ports, len(self.updated), drawn)

    def __deepcopy__(self, memo: dict[int, Any]) -> CompiledRegion:
        """Return self. A run leaves no state in the program, so copies of a graph can share it."""
        return self

    def cycles(self) -> int:
        """Return the simulated cycles of one run. Dynamic sizes have their example values."""
        return self.program.estimate(0)

    def forward(self, *args: Any) -> list[torch.Tensor]:
        results = self._run(*args)
        if results is None and (traced := self._memory_as_traced(args)) is not None:
            results = self._run(*traced)
        if isinstance(results, list):
            return results
        if isinstance(results, int):
            self.program._check_call(results)
        found = [f"{a.dtype}{list(a.shape)} on {a.device}" if isinstance(a, torch.Tensor) else repr(a) for a in args]
        raise RuntimeError(f"a compiled graph was called with {', '.join(found)}, for which it was not compiled")

    def _memory_as_traced(self, args: Sequence[Any]) -> list[Any] | None:
        """Give the memory of views the size that it had in the trace, or return None if there is no such argument.

        In inference mode, views do not know the tensor that they are views of. Where some of them are written,
        AOTAutograd passes their whole memory in one dimension. The trace has it up to the last element that they reach.
        """
        if len(args) != len(self.arguments):
            return None
        traced = list(map(_beginning, args, [*self.inputs, *self._written]))
        return None if all(map(operator.is_, traced, args)) else traced


def _beginning(arg: Any, spec: TensorSpec) -> Any:
    """Return the part of a whole memory that the program has. Return other arguments as they are."""
    if not isinstance(arg, torch.Tensor) or not arg.is_inference() or arg.nbytes != arg.untyped_storage().nbytes():
        return arg
    shorter = arg.dim() == len(spec.shape) == 1 and not spec.dynamic and spec.shape[0] < arg.shape[0]
    return arg[: spec.shape[0]] if shorter else arg


def check_interface(region: CompiledRegion, graph: torch.fx.Graph, updates: Sequence[str]) -> None:
    """Raise ValueError if a program does not have the inputs and results of a region's graph, or calls the host."""
    if region.host_calls:
        raise ValueError("it calls operators on the host; expected none")
    if region.updated != list(updates):
        raise ValueError(f"it updates {region.updated}; expected {list(updates)}")
    given = [(node, node.meta["val"]) for node in graph.find_nodes(op="placeholder")]
    places = {node.name if is_tensor(node) else size_port(node): value for node, value in given}
    if len(set(region.arguments)) < len(region.arguments):
        raise ValueError("two of its inputs have one name")
    for spec in region.inputs:
        if spec.name not in places:
            raise ValueError(f"its input {spec.name}; expected one of {', '.join(places)}")
        value = places[spec.name]
        if isinstance(value, torch.Tensor):
            _check_type(spec, value.dtype, _sizes(value))
        else:
            _check_type(spec, torch.uint8, (None, 0))
    returned: Any = graph.output_node().args[0]
    results = [*returned[len(updates) :], *returned[: len(updates)]]
    if len(results) != len(region.outputs):
        raise ValueError(f"it has {len(region.outputs)} results; expected {len(results)}")
    for spec, node in zip(region.outputs, results):
        _check_type(spec, node.meta["val"].dtype, _sizes(node.meta["val"]))


def _sizes(value: torch.Tensor) -> tuple[int | None, ...]:
    """Return the sizes of a tensor, and None for dynamic ones."""
    return tuple(size if isinstance(size, int) else size.node.maybe_as_int() for size in value.shape)


def _check_type(spec: TensorSpec, dtype: torch.dtype, sizes: Sequence[int | None]) -> None:
    if (
        spec.dtype is not dtype
        or len(spec.shape) != len(sizes)
        or any(
            size != static
            for dim, (size, static) in enumerate(zip(spec.shape, sizes))
            if static is not None and not spec.is_dynamic(dim)
        )
    ):
        raise ValueError(f"{spec} is not {dtype} with the sizes {list(sizes)}")
