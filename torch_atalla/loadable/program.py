# SPDX-License-Identifier: BSD-3-Clause
"""A loadable that is loaded on a device."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from torch_atalla.device.html_table import html_table
from torch_atalla.driver import runtime
from torch_atalla.driver.dtypes import name as dtype_name

from .errors import LoadableError
from .host_call import HostCalls
from .method import LoadedMethod
from .packed import pack
from .report import LoadableReport
from .tensor_spec import ValueType, value_type

if TYPE_CHECKING:
    from torch_atalla.isa.engine import Stats


class LoadedProgram:
    """A program on a device. Calling it calls its first method.

    `methods` maps names to all methods. They share the parameters and the mutable buffers, which keep their values from
    call to call.
    """

    def __init__(
        self,
        program: runtime.Program,
        device: torch.device,
        path: str,
        engine: str = "functional",
        operators: Sequence[str] = (),
    ):
        self._program = program
        self.device = device
        self.path = path
        self.engine = engine
        self.operators = tuple(operators)
        HostCalls.attach(program, device.index, self.operators)
        data = program.describe()
        if engine == "isa" and not data["code"]:
            raise ValueError(f'{path}: the file has no Atalla code; save it with engine="isa"')
        self.methods = {
            record["name"]: LoadedMethod(program, device, path, number, data)
            for number, record in enumerate(data["methods"])
        }
        self._first = next(iter(self.methods.values()))
        self.inputs, self.outputs = self._first.inputs, self._first.outputs
        self.report = self._read_report(data)
        self._parameters = _named_values(data)
        self._packed = _packed_matrices(data)
        self._aliases: dict[str, str] = json.loads(data["metadata"].get("state_names", "{}"))
        self._states = {record["name"]: value_type(data["values"][record["value"]]) for record in data["states"]}
        program.load(device.index, engine)

    def _read_report(self, data: dict[str, Any]) -> LoadableReport:
        report = LoadableReport.of_file(data)
        report.path = self.path
        return report

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._first(*args, **kwargs)

    @property
    def stats(self) -> Stats:
        """Statistics of the latest call on the engine "isa"."""
        from torch_atalla.isa.engine import stats_of

        return stats_of(self._program.code_stats())

    def __getitem__(self, name: str) -> LoadedMethod:
        """Return the method called `name`. Raises KeyError, which lists the existing names."""
        if name not in self.methods:
            raise KeyError(f"no method {name!r}; the program has {', '.join(map(repr, self.methods))}")
        return self.methods[name]

    def _repr_html_(self) -> str:
        rows = [
            (method.name, what, spec.name, f"{dtype_name(spec.dtype)}{list(spec.shape)}")
            for method in self.methods.values()
            for what, specs in (("input", method.inputs), ("output", method.outputs))
            for spec in specs
        ]
        return html_table(rows, ("method", "port", "name", "type"), f"{self.path} on {self.device}")

    def signature(self) -> str:
        """Return the inputs and outputs of the first method as text, one per line."""
        return self._first.signature()

    def verify(self) -> int:
        """Replay the file's golden outputs and return their number. Resets the mutable buffers.

        Raises LoadableError, which lists every difference.
        """
        try:
            return self._program.verify()
        except runtime.RuntimeLibraryError as error:
            raise LoadableError(str(error)) from None

    def parameters(self) -> dict[str, tuple[torch.dtype, tuple[int, ...]]]:
        """Return dtype and shape, by name, of the parameters and buffers that `load_state_dict` can replace."""
        return {name: self._seen_type(name) for name in self._parameters}

    def load_state_dict(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Replace parameters, buffers and mutable buffers by name. Others keep their values.

        Parameters and buffers change all at once: running calls use the old values, later calls the new ones. Raises
        ValueError and changes nothing if a name, dtype or shape does not match the program, or if a parameter was
        folded into other constants when the file was saved.
        """
        problems = []
        tensors = {self._aliases.get(name, name): tensor for name, tensor in tensors.items()}
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
        except runtime.RuntimeLibraryError as error:
            raise ValueError(str(error)) from None
        for name, tensor in host.items():
            if name in self._states:
                self._program.write_state(name, tensor.data_ptr(), tensor.numel() * tensor.itemsize)

    def _seen_type(self, name: str) -> tuple[torch.dtype, tuple[int, ...]]:
        """Return dtype and shape as in the state dict, also for a matrix that the file holds packed."""
        dtype, shape, _ = self._parameters.get(name) or self._states[name]
        return dtype, self._packed[name][1] if name in self._packed else shape

    def _pack(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        if name not in self._packed:
            return tensor
        matrix = tensor.detach().cpu().flatten(1)
        return pack(matrix.t() if self._packed[name][0] == "t" else matrix)

    def _type_of(self, name: str) -> ValueType | None:
        return self._parameters.get(name) or self._states.get(name)

    @property
    def states(self) -> tuple[str, ...]:
        """Names of the mutable buffers. One that is another tensor than an earlier method's buffer of its name has the
        method's name before its own: "decode:k"."""
        return tuple(self._states)

    def read_state(self, name: str) -> torch.Tensor:
        """Return a CPU copy of a mutable buffer, after all earlier calls. Raises KeyError for an unknown name."""
        name = self._aliases.get(name, name)
        if name not in self._states:
            raise KeyError(
                f"no mutable buffer {name!r}; the program has {', '.join(map(repr, self._states)) or 'none'}"
            )
        dtype, shape, strides = self._states[name]
        tensor = torch.empty_strided(shape, strides, dtype=dtype)
        self._program.read_state(name, tensor.data_ptr(), tensor.numel() * tensor.itemsize)
        return tensor

    def reset_state(self) -> None:
        """Reset the mutable buffers to their values in the exported program."""
        self._program.reset_state()

    def __repr__(self) -> str:
        model = self.report.model or Path(self.path).name
        others = f", methods {', '.join(self.methods)}" if len(self.methods) > 1 else ""
        others += ", engine isa" if self.engine == "isa" else ""
        return (
            f"<LoadedProgram {model} on {self.device}: {len(self.inputs)} inputs, {len(self.outputs)} outputs{others}>"
        )


def _named_values(data: dict[str, Any]) -> dict[str, ValueType]:
    """Return the types of parameters and buffers by their names in the state dict."""
    values = (value for value in data["values"] if value["kind"] in ("parameter", "buffer") and value["fqn"])
    return {value["fqn"]: value_type(value) for value in values}


def _packed_matrices(data: dict[str, Any]) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Return the orientation ("n", or "t": transposed before packing) and shape of packed matrices, by name."""
    lines = data["metadata"].get("packed", "").splitlines()
    fields = [line.rsplit(" ", 3) for line in lines]
    return {
        name: (orientation, (int(rows), *map(int, columns.split("x")))) for name, orientation, rows, columns in fields
    }


def _dense(tensor: torch.Tensor, wanted: ValueType | None) -> torch.Tensor:
    """Copy a tensor to the CPU in the program's layout. Without a layout, the driver reports the unknown name."""
    tensor = tensor.detach().cpu()
    if wanted is None:
        return tensor.contiguous()
    return torch.empty_strided(wanted[1], wanted[2], dtype=wanted[0]).copy_(tensor)
