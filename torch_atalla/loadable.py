# SPDX-License-Identifier: BSD-3-Clause
"""Loadables: exported programs as files that run on the chip.

    ep = torch.export.export(model.eval(), (x,))
    report = torch_atalla.save_loadable(ep, "model.atl", fallback="error")
    program = torch_atalla.load_loadable("model.atl", device="atalla")
    y = program(x.to("atalla"))

docs/concepts/aot.md tells what happens in between.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

import torch_atalla._C

from . import _runtime
from ._runtime import TensorRef
from .export.dtypes import CODES, DTYPES, from_name
from .export.dtypes import name as dtype_name
from .export.errors import ExportError, UnsupportedOp, UnsupportedOpsError
from .export.host_call import run_segment
from .export.leaves import load_leaves, load_spec, method_key
from .export.report import LoadableReport, SegmentReport

_ARGUMENT = 20  # ATALLA_ERR_ARGUMENT


Source = torch.export.ExportedProgram | torch.nn.Module


class LoadableError(RuntimeError):
    """A file that is no loadable, or that this installation cannot run. The text lists every problem found."""


@dataclass(frozen=True)
class TensorSpec:
    """An input or output: what it is called, and what it must be.

    Of a dimension whose size the call determines, `dynamic` has the legal sizes or the expression as text, and `shape`
    the size for which memory was planned; other dimensions have None.
    """

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dynamic: tuple[str | None, ...] = ()

    def __str__(self) -> str:
        dims = self.dynamic or (None,) * len(self.shape)
        shown = ", ".join(str(size) if text is None else text for size, text in zip(self.shape, dims))
        return f"{self.name}: {dtype_name(self.dtype)}[{shown}]"

    def is_dynamic(self, dim: int) -> bool:
        return bool(self.dynamic) and self.dynamic[dim] is not None

    def mismatch(self, shape: tuple[int, ...]) -> bool:
        """Whether a shape can not be one of this tensor, as far as its static dimensions tell."""
        return len(shape) != len(self.shape) or any(
            size != given and not self.is_dynamic(dim) for dim, (size, given) in enumerate(zip(self.shape, shape))
        )


class LoadedMethod:
    """One entry point of a program on a device. Calling it is as calling the module that was exported for it."""

    def __init__(self, program: _runtime.Program, device: torch.device, path: str, number: int, data: dict[str, Any]):
        self._program = program
        self._path = path
        self._number = number
        self.device = device
        record = data["methods"][number]
        self.name: str = record["name"]
        self._read_interface(data, record)
        self._bound = torch_atalla._C.BoundMethod(
            program.handle, number, device.index, _types(self.inputs), _types(self.outputs)
        )

    def _read_interface(self, data: dict[str, Any], record: dict[str, Any]) -> None:
        metadata, path = data["metadata"], self._path
        keys = {
            key: method_key(key, self.name, self._number) for key in ("in_spec", "out_spec", "in_leaves", "out_leaves")
        }
        missing = [key for key in keys.values() if key not in metadata]
        if missing:
            raise LoadableError(f"{path}: expected the metadata {', '.join(missing)}, found none")
        self.inputs = tuple(_spec(data, port) for port in _slice(data["inputs"], record["inputs"]))
        self.outputs = tuple(_spec(data, port) for port in _slice(data["outputs"], record["outputs"]))
        self._in_leaves = load_leaves(metadata[keys["in_leaves"]])
        self._out_leaves = load_leaves(metadata[keys["out_leaves"]])
        self._in_spec = load_spec(metadata[keys["in_spec"]])
        self._out_spec = load_spec(metadata[keys["out_spec"]])
        # The common call: tensors one after the other, nothing nested.
        positional, keywords = self._in_spec.children()
        self._positional = (
            keywords.num_children == 0
            and all(child.is_leaf() for child in positional.children())
            and all(leaf.is_tensor for leaf in self._in_leaves)
        )
        self._single = self._out_spec.is_leaf() and len(self.outputs) == 1
        for what, leaves, ports in (
            ("inputs", self._in_leaves, self.inputs),
            ("outputs", self._out_leaves, self.outputs),
        ):
            tensors = sum(leaf.is_tensor for leaf in leaves)
            if tensors != len(ports):
                raise LoadableError(f"{path}: the metadata has {tensors} {what}, the program {len(ports)}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._positional and not kwargs:
            outputs = self._bound(*args)
            if type(outputs) is list:
                return outputs[0] if self._single else self._result(outputs)
        else:
            outputs = None
        if outputs is None:
            outputs = self._bound(*self._arguments(args, kwargs))
        if isinstance(outputs, list):
            return self._result(outputs)
        if outputs is None:
            raise TypeError(f"expected tensors of these types\n{self.signature()}")
        self._raise(outputs)

    def _raise(self, status: int) -> None:
        """What went wrong in a call, as PyTorch's type: ValueError for sizes that the program does not take."""
        try:
            self._program._check_call(status)
        except _runtime.RuntimeLibraryError as error:
            if error.status == _ARGUMENT:
                raise ValueError(str(error)) from None
            raise

    def _result(self, outputs: list[torch.Tensor]) -> Any:
        if self._out_spec.is_leaf():
            return outputs[0] if outputs else self._out_leaves[0].value
        results = iter(outputs)
        leaves = [next(results) if leaf.is_tensor else leaf.value for leaf in self._out_leaves]
        return pytree.tree_unflatten(leaves, self._out_spec)

    def _arguments(self, args: tuple, kwargs: dict[str, Any]) -> list[torch.Tensor]:
        """The tensors of a call. Raises TypeError or ValueError for what is not what the program takes."""
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
        if given.device == self.device and given.dtype == spec.dtype and not spec.mismatch(tuple(given.shape)):
            if given.layout is not torch.strided:
                raise ValueError(f"input {spec.name}: expected layout torch.strided, found {given.layout}")
            return given.resolve_conj().resolve_neg()
        problems = []
        if given.device != self.device:
            problems.append(f"device {self.device}, found {given.device}")
        if given.dtype != spec.dtype:
            problems.append(f"dtype {dtype_name(spec.dtype)}, found {dtype_name(given.dtype)}")
        if spec.mismatch(tuple(given.shape)):
            shown = str(spec).removeprefix(f"{spec.name}: {dtype_name(spec.dtype)}")
            problems.append(f"shape {shown}, found {list(given.shape)}")
        raise ValueError(f"input {spec.name}: expected " + "; expected ".join(problems))

    def signature(self) -> str:
        """Inputs and outputs, one a line."""
        lines = [f"input   {spec}" for spec in self.inputs] + [f"output  {spec}" for spec in self.outputs]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<LoadedMethod {self.name}: {len(self.inputs)} inputs, {len(self.outputs)} outputs>"


class LoadedProgram:
    """A program on a device. Calling it calls its first method.

    `methods` has all of them by name. Methods share parameters and the mutable buffers, which keep their values from
    call to call.
    """

    def __init__(self, program: _runtime.Program, device: torch.device, path: str):
        self._program = program
        self.device = device
        self.path = path
        data = program.describe()
        self.methods = {
            record["name"]: LoadedMethod(program, device, path, number, data)
            for number, record in enumerate(data["methods"])
        }
        self._first = next(iter(self.methods.values()))
        self.inputs, self.outputs = self._first.inputs, self._first.outputs
        self.report = self._read_report(data)
        self._parameters = _named_values(data)
        self._packed = _packed_matrices(data)
        self._states = {record["name"]: _value_type(data["values"][record["value"]]) for record in data["states"]}
        program.load(device.index)
        program.set_host_call(lambda text, inputs, outputs: run_host_call(device.index, text, inputs, outputs))

    def _read_report(self, data: dict[str, Any]) -> LoadableReport:
        text = data["metadata"].get("report")
        report = LoadableReport.from_json(text) if text else LoadableReport()
        report.path, report.file_bytes = self.path, data["file_bytes"]
        report.method_cycles = [method["estimate_cycles"] for method in data["methods"]]
        report.estimate_cycles = report.method_cycles[0]
        return report

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._first(*args, **kwargs)

    def __getitem__(self, name: str) -> LoadedMethod:
        """A method by its name. Raises KeyError with the names that there are."""
        if name not in self.methods:
            raise KeyError(f"no method {name!r}; the program has {', '.join(map(repr, self.methods))}")
        return self.methods[name]

    def signature(self) -> str:
        """Inputs and outputs of the first method, one a line."""
        return self._first.signature()

    def verify(self) -> int:
        """Replays the file's golden outputs and gives how many there are. Resets the mutable buffers. Raises
        LoadableError with every difference."""
        try:
            return self._program.verify()
        except _runtime.RuntimeLibraryError as error:
            raise LoadableError(str(error)) from None

    def parameters(self) -> dict[str, tuple[torch.dtype, tuple[int, ...]]]:
        """Dtype and shape of what `load_state_dict` can replace, by name."""
        return {name: self._seen_type(name) for name in self._parameters}

    def load_state_dict(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Replaces parameters, buffers and mutable buffers by name; those that are not named stay.

        Parameters and buffers change all at once: calls under way see the old ones, later calls the new ones. Raises
        ValueError, and changes nothing, when a name, dtype or shape is not the program's, or when a parameter was
        folded into others when the file was saved.
        """
        problems = []
        for name, tensor in tensors.items():
            found = self._seen_type(name) if self._type_of(name) is not None else None
            if found is not None and (tensor.dtype, tuple(tensor.shape)) != found:
                problems.append(
                    f"{name}: expected {dtype_name(found[0])}{list(found[1])}, "
                    f"found {dtype_name(tensor.dtype)}{list(tensor.shape)}"
                )
        if problems:
            raise ValueError("; ".join(problems))
        host = {name: _dense(self._pack(name, tensor), self._type_of(name)) for name, tensor in tensors.items()}
        items = [
            (name, tensor.data_ptr(), tensor.numel() * tensor.itemsize)
            for name, tensor in host.items()
            if name not in self._states
        ]
        try:
            self._program.replace(items)
        except _runtime.RuntimeLibraryError as error:
            raise ValueError(str(error)) from None
        for name, tensor in host.items():
            if name in self._states:
                self._program.write_state(name, tensor.data_ptr(), tensor.numel() * tensor.itemsize)

    def _seen_type(self, name: str) -> tuple[torch.dtype, tuple[int, ...]]:
        """Dtype and shape as in the state dict, also of a matrix that the file holds packed."""
        dtype, shape, _ = self._parameters.get(name) or self._states[name]
        return dtype, self._packed[name][1] if name in self._packed else shape

    def _pack(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        if name not in self._packed:
            return tensor
        from .export.linear.pack_weights import pack

        matrix = tensor.detach().cpu().flatten(1)
        return pack(matrix.t() if self._packed[name][0] == "t" else matrix)

    def _type_of(self, name: str) -> _Type | None:
        return self._parameters.get(name) or self._states.get(name)

    @property
    def states(self) -> tuple[str, ...]:
        """Names of the mutable buffers."""
        return tuple(self._states)

    def read_state(self, name: str) -> torch.Tensor:
        """The present value of a mutable buffer, on the CPU. Waits for the calls before. KeyError: there is none."""
        if name not in self._states:
            raise KeyError(
                f"no mutable buffer {name!r}; the program has {', '.join(map(repr, self._states)) or 'none'}"
            )
        dtype, shape, strides = self._states[name]
        tensor = torch.empty_strided(shape, strides, dtype=dtype)
        self._program.read_state(name, tensor.data_ptr(), tensor.numel() * tensor.itemsize)
        return tensor

    def reset_state(self) -> None:
        """Gives the mutable buffers the values that they had in the exported program."""
        self._program.reset_state()

    def __repr__(self) -> str:
        model = self.report.model or Path(self.path).name
        others = f", methods {', '.join(self.methods)}" if len(self.methods) > 1 else ""
        return (
            f"<LoadedProgram {model} on {self.device}: {len(self.inputs)} inputs, {len(self.outputs)} outputs{others}>"
        )


def save_loadable(program: Source | Mapping[str, Source], path: str | os.PathLike, **options: Any) -> LoadableReport:
    """Compiles an exported program, or several as {method name: exported program}, and writes a loadable; gives the
    report. torch_atalla.export.save.save_loadable has the options."""
    from .export.save import save_loadable as save  # brings the compiler, which who only loads need not wait for

    return save(program, path, **options)


def load_loadable(
    path: str | os.PathLike, device: str | int | torch.device = "atalla", *, engine: str = "functional"
) -> Any:
    """Maps, verifies and places a loadable on a device: a LoadedProgram. Raises LoadableError, which lists all that is
    wrong. engine="isa" runs the file's Atalla code instead, as a torch_atalla.isa.loaded.LoadedCode."""
    if engine not in ("functional", "isa"):
        raise ValueError(f'engine: expected "functional" or "isa", got {engine!r}')
    where = torch.device("atalla", device) if isinstance(device, int) else torch.device(device)
    if where.type != "atalla":
        raise ValueError(f"device: expected an atalla device, found {where}")
    if where.index is None:
        where = torch.device("atalla", torch.accelerator.current_device_index())
    name = os.fspath(path)
    if not Path(name).is_file():
        raise FileNotFoundError(f"{name}: no such file; expected a loadable")
    try:
        if engine == "isa":
            from .isa.loaded import LoadedCode

            return LoadedCode(name, where)
        return LoadedProgram(_runtime.Program(name, to_load=True), where, name)
    except (_runtime.RuntimeLibraryError, ExportError) as error:
        text = str(error)
        raise LoadableError(text if name in text else f"{name}: {text}") from None


_Type = tuple[torch.dtype, tuple[int, ...], tuple[int, ...]]  # dtype, shape, strides


def _slice(records: list[Any], span: list[int]) -> list[Any]:
    first, count = span
    return records[first : first + count]


def _value_type(value: dict[str, Any]) -> _Type:
    return from_name(value["dtype"]), tuple(value["sizes"]), tuple(value["strides"])


def _spec(data: dict[str, Any], port: dict[str, Any]) -> TensorSpec:
    dtype, shape, strides = _value_type(data["values"][port["value"]])
    index = data["inputs"].index(port) if port in data["inputs"] else -1
    ranges = {symbol["dim"]: symbol["sizes"] for symbol in data["symbols"] if symbol["input"] == index}
    dynamic = tuple(ranges.get(dim, text) if text is not None else None for dim, text in enumerate(port["dynamic"]))
    return TensorSpec(port["name"], dtype, shape, strides, dynamic if any(dynamic) else ())


def _types(specs: tuple[TensorSpec, ...]) -> list[tuple]:
    return [
        (CODES[spec.dtype], list(spec.shape), list(spec.strides), [spec.is_dynamic(d) for d in range(len(spec.shape))])
        for spec in specs
    ]


def _named_values(data: dict[str, Any]) -> dict[str, _Type]:
    """Parameters and buffers by their names in the state dict."""
    values = (value for value in data["values"] if value["kind"] in ("parameter", "buffer") and value["fqn"])
    return {value["fqn"]: _value_type(value) for value in values}


def _packed_matrices(data: dict[str, Any]) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Orientation ("n", or "t": transposed before it is packed) and shape, by name."""
    lines = data["metadata"].get("packed", "").splitlines()
    fields = [line.rsplit(" ", 3) for line in lines]
    return {
        name: (orientation, (int(rows), *map(int, columns.split("x")))) for name, orientation, rows, columns in fields
    }


def _dense(tensor: torch.Tensor, wanted: _Type | None) -> torch.Tensor:
    """On the CPU, in the layout that the program has; a name that it does not have is left to the driver."""
    tensor = tensor.detach().cpu()
    if wanted is None:
        return tensor.contiguous()
    return torch.empty_strided(wanted[1], wanted[2], dtype=wanted[0]).copy_(tensor)


def run_host_call(device: int, text: str, inputs: list[TensorRef], outputs: list[TensorRef]) -> None:
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
    "LoadedMethod",
    "LoadedProgram",
    "SegmentReport",
    "TensorSpec",
    "UnsupportedOp",
    "UnsupportedOpsError",
    "load_loadable",
    "save_loadable",
]
