# SPDX-License-Identifier: BSD-3-Clause
"""Loadables: exported programs as files that run on the chip.

    ep = torch.export.export(model.eval(), (x,))
    report = torch_atalla.save_loadable(ep, "model.atl", fallback="error")
    program = torch_atalla.load_loadable("model.atl", device="atalla")
    y = program(x.to("atalla"))

docs/aot.md tells what happens in between.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from . import _runtime
from ._runtime import TensorRef
from .export.dtypes import CODES, DTYPES, from_name
from .export.dtypes import name as dtype_name
from .export.errors import ExportError, UnsupportedOp, UnsupportedOpsError
from .export.host_call import run_segment
from .export.leaves import load_leaves, load_spec
from .export.report import LoadableReport, SegmentReport
from .export.save import save_loadable


class LoadableError(RuntimeError):
    """A file that is no loadable, or that this installation cannot run. The text lists every problem found."""


@dataclass(frozen=True)
class TensorSpec:
    """An input or output: what it is called, and what it must be."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.name}: {dtype_name(self.dtype)}{list(self.shape)}"


class LoadedProgram:
    """A program on a device. Calling it is as calling the exported module, with tensors on that device."""

    def __init__(self, program: _runtime.Program, device: torch.device, path: str):
        self._program = program
        self.device = device
        self.path = path
        data = program.describe()
        self._read_interface(data)
        self._binding = program.bind([_ref(spec) for spec in self.inputs], [_ref(spec) for spec in self.outputs])
        self.report = self._read_report(data)
        program.load(device.index)
        program.set_host_call(lambda text, inputs, outputs: _host_call(device.index, text, inputs, outputs))

    def _read_interface(self, data: dict[str, Any]) -> None:
        metadata = data["metadata"]
        missing = [key for key in ("in_spec", "out_spec", "in_leaves", "out_leaves") if key not in metadata]
        if missing:
            raise LoadableError(f"{self.path}: expected the metadata {', '.join(missing)}, found none")
        self.inputs = tuple(_spec(data, port) for port in data["inputs"])
        self.outputs = tuple(_spec(data, port) for port in data["outputs"])
        self._in_leaves = load_leaves(metadata["in_leaves"])
        self._out_leaves = load_leaves(metadata["out_leaves"])
        self._in_spec = load_spec(metadata["in_spec"])
        self._out_spec = load_spec(metadata["out_spec"])
        # The common call: tensors one after the other, nothing nested.
        positional, keywords = self._in_spec.children()
        self._positional = (
            keywords.num_children == 0
            and all(child.is_leaf() for child in positional.children())
            and all(leaf.is_tensor for leaf in self._in_leaves)
        )
        for what, leaves, ports in (
            ("inputs", self._in_leaves, self.inputs),
            ("outputs", self._out_leaves, self.outputs),
        ):
            tensors = sum(leaf.is_tensor for leaf in leaves)
            if tensors != len(ports):
                raise LoadableError(f"{self.path}: the metadata has {tensors} {what}, the program {len(ports)}")

    def _read_report(self, data: dict[str, Any]) -> LoadableReport:
        text = data["metadata"].get("report")
        report = LoadableReport.from_json(text) if text else LoadableReport()
        report.path, report.file_bytes = self.path, data["file_bytes"]
        report.estimate_cycles = data["methods"][0]["estimate_cycles"]
        return report

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        tensors = self._arguments(args, kwargs)
        outputs = [
            torch.empty_strided(spec.shape, spec.strides, dtype=spec.dtype, device=self.device) for spec in self.outputs
        ]
        stream = torch.accelerator.current_stream(self.device).stream_id
        self._binding.run([t.data_ptr() for t in tensors], [t.data_ptr() for t in outputs], stream=stream)
        if self._out_spec.is_leaf():
            return outputs[0] if outputs else self._out_leaves[0].value
        results = iter(outputs)
        leaves = [next(results) if leaf.is_tensor else leaf.value for leaf in self._out_leaves]
        return pytree.tree_unflatten(leaves, self._out_spec)

    def _arguments(self, args: tuple, kwargs: dict[str, Any]) -> list[torch.Tensor]:
        """The tensors of a call, in the layout that the program wants. Raises TypeError or ValueError."""
        if self._positional and not kwargs and len(args) == len(self.inputs):
            if all(isinstance(given, torch.Tensor) for given in args):
                return [self._check_tensor(spec, given) for spec, given in zip(self.inputs, args)]
        order = self._in_spec.children()[1].context or []
        if set(order) == set(kwargs):
            kwargs = {key: kwargs[key] for key in order}
        leaves, spec = pytree.tree_flatten((args, kwargs))
        if spec != self._in_spec:
            expected = len(self._in_leaves)
            raise TypeError(
                f"expected {expected} argument{'s' if expected != 1 else ''} in the structure\n  {self._in_spec}\n"
                f"found {len(leaves)} in the structure\n  {spec}\n{self.signature()}"
            )
        tensors: list[torch.Tensor] = []
        for i, (leaf, given) in enumerate(zip(self._in_leaves, leaves, strict=True)):
            if leaf.is_tensor:
                tensors.append(self._check_tensor(self.inputs[len(tensors)], given))
            elif given != leaf.value or type(given) is not type(leaf.value):
                raise ValueError(f"argument {i}: expected the value {leaf.value!r} of the export, found {given!r}")
        return tensors

    def _check_tensor(self, spec: TensorSpec, given: Any) -> torch.Tensor:
        if not isinstance(given, torch.Tensor):
            raise TypeError(f"input {spec.name}: expected a tensor, found {type(given).__name__}")
        if given.device == self.device and given.dtype == spec.dtype and given.shape == spec.shape:
            if given.stride() == spec.strides or given.numel() == 0:
                return given
            ordered = torch.empty_strided(spec.shape, spec.strides, dtype=spec.dtype, device=self.device)
            return ordered.copy_(given.detach())
        problems = []
        if given.device != self.device:
            problems.append(f"device {self.device}, found {given.device}")
        if given.dtype != spec.dtype:
            problems.append(f"dtype {dtype_name(spec.dtype)}, found {dtype_name(given.dtype)}")
        if tuple(given.shape) != spec.shape:
            problems.append(f"shape {list(spec.shape)}, found {list(given.shape)}")
        raise ValueError(f"input {spec.name}: expected " + "; expected ".join(problems))

    def signature(self) -> str:
        """Inputs and outputs, one a line."""
        lines = [f"input   {spec}" for spec in self.inputs] + [f"output  {spec}" for spec in self.outputs]
        return "\n".join(lines)

    def __repr__(self) -> str:
        model = self.report.model or Path(self.path).name
        return f"<LoadedProgram {model} on {self.device}: {len(self.inputs)} inputs, {len(self.outputs)} outputs>"


def load_loadable(path: str | os.PathLike, device: str | int | torch.device = "atalla") -> LoadedProgram:
    """Maps, verifies and places a loadable on a device. Raises LoadableError, which lists all that is wrong."""
    where = torch.device("atalla", device) if isinstance(device, int) else torch.device(device)
    if where.type != "atalla":
        raise ValueError(f"device: expected an atalla device, found {where}")
    if where.index is None:
        where = torch.device("atalla", torch.accelerator.current_device_index())
    name = os.fspath(path)
    if not Path(name).is_file():
        raise FileNotFoundError(f"{name}: no such file; expected a loadable")
    try:
        return LoadedProgram(_runtime.Program(name), where, name)
    except (_runtime.RuntimeLibraryError, ExportError) as error:
        text = str(error)
        raise LoadableError(text if name in text else f"{name}: {text}") from None


def _spec(data: dict[str, Any], port: dict[str, Any]) -> TensorSpec:
    value = data["values"][port["value"]]
    return TensorSpec(port["name"], from_name(value["dtype"]), tuple(value["sizes"]), tuple(value["strides"]))


def _ref(spec: TensorSpec) -> TensorRef:
    return TensorRef(0, CODES[spec.dtype], spec.shape, spec.strides)


def _host_call(device: int, text: str, inputs: list[TensorRef], outputs: list[TensorRef]) -> None:
    """Runs a fallback segment on copies of its inputs. Its outputs are dense: each is written with one copy."""
    results = run_segment(text, [_to_host(device, ref) for ref in inputs])
    for k, (ref, result) in enumerate(zip(outputs, results, strict=True)):
        if tuple(result.shape) != ref.sizes or result.dtype != DTYPES[ref.dtype]:
            raise LoadableError(
                f"a fallback segment gave {dtype_name(result.dtype)}{list(result.shape)} as its result {k}, expected "
                f"{dtype_name(DTYPES[ref.dtype])}{list(ref.sizes)}"
            )
        host = torch.empty_strided(ref.sizes, ref.strides, dtype=result.dtype).copy_(result)
        _runtime.copy_to_device(device, ref.addr, host.data_ptr(), host.numel() * host.itemsize)


def _to_host(device: int, ref: TensorRef) -> torch.Tensor:
    dtype = DTYPES[ref.dtype]
    if 0 in ref.sizes:
        return torch.empty(ref.sizes, dtype=dtype)
    elements = 1 + sum((size - 1) * stride for size, stride in zip(ref.sizes, ref.strides))
    flat = torch.empty(elements, dtype=dtype)
    _runtime.copy_from_device(device, flat.data_ptr(), ref.addr, elements * flat.itemsize)
    return flat.as_strided(ref.sizes, ref.strides)


__all__ = [
    "ExportError",
    "LoadableError",
    "LoadableReport",
    "LoadedProgram",
    "SegmentReport",
    "TensorSpec",
    "UnsupportedOp",
    "UnsupportedOpsError",
    "load_loadable",
    "save_loadable",
]
