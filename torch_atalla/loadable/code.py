# SPDX-License-Identifier: BSD-3-Clause
"""A loadable's Atalla code on a device: `load_loadable(path, engine="isa")`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

from torch_atalla.isa.disassembler import disassemble
from torch_atalla.isa.engine import Stats

from .description import describe
from .device_program import DeviceProgram, Layout
from .file.code_section import find
from .interface import Interface
from .tensor_spec import value_type


class LoadedCode:
    """A program of Atalla code on a device. Call it like the exported module, with tensors on that device."""

    def __init__(self, path: str | os.PathLike, device: torch.device) -> None:
        name = os.fspath(path)
        data = describe(name)  # validates
        section = find(Path(name).read_bytes())
        if section is None:
            raise ValueError(f'{name}: the file has no Atalla code; save it with engine="isa"')
        self.path, self.device = name, device
        self._interface = Interface(name, data, 0, device)
        inputs, outputs = port_layouts(data)
        self._program = DeviceProgram(section, inputs, outputs, device)

    @property
    def stats(self) -> Stats:
        """Statistics of the last call."""
        return self._program.stats

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._interface.result(self._program(self._interface.arguments(args, kwargs)))

    def __repr__(self) -> str:
        return f"<LoadedCode {Path(self.path).name} on {self.device}: {len(self._program.code.program)} packets>"


def port_layouts(data: dict[str, Any]) -> tuple[list[Layout], list[Layout]]:
    """Return the layouts of the inputs and outputs in a program's description."""
    inputs, outputs = ([_layout(data, port) for port in data[what]] for what in ("inputs", "outputs"))
    return inputs, outputs


def _layout(data: dict[str, Any], port: dict[str, Any]) -> Layout:
    return port["name"], *value_type(data["values"][port["value"]])


def listing(path: str | os.PathLike) -> str:
    """Return the Atalla code of a loadable as assembly. Raises ValueError if it has none."""
    section = find(Path(path).read_bytes())
    if section is None:
        raise ValueError('the file has no Atalla code; save it with engine="isa"')
    return disassemble(section.program())
