# SPDX-License-Identifier: BSD-3-Clause
"""A loadable's Atalla code on a device: `load_loadable(path, engine="isa")`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

from torch_atalla.isa.disassembler import disassemble
from torch_atalla.isa.engine import Stats

from .description import describe
from .device_program import DeviceProgram, Layout
from .file.code_section import find
from .leaves import load_leaves, load_spec
from .tensor_spec import value_type


class LoadedCode:
    """A program of Atalla code on a device. Called as the exported module is, with tensors on that device."""

    def __init__(self, path: str | os.PathLike, device: torch.device) -> None:
        name = os.fspath(path)
        data = describe(name)  # validates
        section = find(Path(name).read_bytes())
        if section is None:
            raise ValueError(f'{name}: the file has no Atalla code; save it with engine="isa"')
        self.path, self.device = name, device
        metadata = data["metadata"]
        self._in_leaves, self._out_leaves = load_leaves(metadata["in_leaves"]), load_leaves(metadata["out_leaves"])
        self._in_spec, self._out_spec = load_spec(metadata["in_spec"]), load_spec(metadata["out_spec"])
        inputs, outputs = port_layouts(data)
        self._program = DeviceProgram(section, inputs, outputs, device)

    @property
    def stats(self) -> Stats:
        """Of the last call."""
        return self._program.stats

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves, spec = pytree.tree_flatten((args, kwargs))
        if spec != self._in_spec:
            raise TypeError(f"expected arguments in the structure\n  {self._in_spec}\nfound\n  {spec}")
        outputs = self._program([x for x, leaf in zip(leaves, self._in_leaves) if leaf.is_tensor])
        results = iter(outputs)
        found = [next(results) if leaf.is_tensor else leaf.value for leaf in self._out_leaves]
        return pytree.tree_unflatten(found, self._out_spec)

    def __repr__(self) -> str:
        return f"<LoadedCode {Path(self.path).name} on {self.device}: {len(self._program.code.program)} packets>"


def port_layouts(data: dict[str, Any]) -> tuple[list[Layout], list[Layout]]:
    """Inputs and outputs of a program, from its description."""
    inputs, outputs = ([_layout(data, port) for port in data[what]] for what in ("inputs", "outputs"))
    return inputs, outputs


def _layout(data: dict[str, Any], port: dict[str, Any]) -> Layout:
    return port["name"], *value_type(data["values"][port["value"]])


def listing(path: str | os.PathLike) -> str:
    """The code of a loadable as assembly. ValueError if it has none."""
    section = find(Path(path).read_bytes())
    if section is None:
        raise ValueError('the file has no Atalla code; save it with engine="isa"')
    return disassemble(section.program())
