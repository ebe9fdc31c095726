# SPDX-License-Identifier: BSD-3-Clause
"""The Atalla code of a file: its listing, and the layouts of the inputs and outputs that it is for."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

from torch_atalla.isa.disassembler import disassemble

from .file.code_section import find
from .tensor_spec import value_type

Layout = tuple[str, torch.dtype, tuple[int, ...], tuple[int, ...]]  # name, dtype, sizes, strides


def port_layouts(data: dict[str, Any], method: int = 0) -> tuple[list[Layout], list[Layout]]:
    """Return the layouts of a method's inputs and outputs in a program's description."""
    record = data["methods"][method]
    ranges = ((data[what], record[what]) for what in ("inputs", "outputs"))
    inputs, outputs = ([_layout(data, port) for port in ports[first : first + n]] for ports, (first, n) in ranges)
    return inputs, outputs


def _layout(data: dict[str, Any], port: dict[str, Any]) -> Layout:
    return port["name"], *value_type(data["values"][port["value"]])


def listing(path: str | os.PathLike) -> str:
    """Return the Atalla code of a loadable as assembly, method by method. Raises ValueError if it has none."""
    section = find(Path(path).read_bytes())
    if section is None:
        raise ValueError('the file has no Atalla code; save it with engine="isa"')
    programs = {method.method: method.program() for method in reversed(section.methods)}  # one for all sizes
    listings = {method: disassemble(programs[method]) for method in sorted(programs)}
    if len(listings) == 1:
        return next(iter(listings.values()))
    return "\n".join(f"# method {method}\n{text}" for method, text in listings.items())
