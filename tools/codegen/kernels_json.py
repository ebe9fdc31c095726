# SPDX-License-Identifier: BSD-3-Clause
"""The kernel contracts as torch_atalla.compiler.program.kernels reads them (JSON in the package)."""

from __future__ import annotations

import json

from .kernels import POINTWISE, Kernel, Parameter, Slot
from .model import Pointwise


def _slot(slot: Slot, index: int | None = None) -> list:
    """[bank, first, count] of all values, or of one."""
    return [slot.bank, slot.first, slot.count] if index is None else [slot.bank, slot.first + index, 1]


def _parameter(p: Parameter) -> dict:
    row: dict = {"slot": _slot(p.slot)}
    if p.integer:
        row["integer"] = _slot(p.integer)
    if p.repeat:
        row["repeat"] = True
    if p.values:
        row["values"] = p.values
    if p.bit is not None:
        row["bit"] = p.bit
    return row


def _scalars(kernel: Kernel, formula: Pointwise) -> dict[str, dict]:
    """The scalars of a formula. `present`: the place in iparams, and the bit, that say whether one is given."""
    scalars, present = kernel.parameters
    assert scalars.integer is not None
    rows: dict[str, dict] = {}
    for k, scalar in enumerate(formula.scalars):
        rows[scalar.name] = {"slot": _slot(scalars.slot, k), "integer": _slot(scalars.integer, k)}
        if scalar.optional:
            rows[scalar.name]["present"] = [present.slot.first, k]
    return rows


def _row(kernel: Kernel, parameters: dict[str, dict]) -> dict:
    inputs = [o.name for o in kernel.operands if not (o.written or o.repeat or o.role == "program")]
    row: dict = {
        "traits": sorted(kernel.traits),
        "inputs": inputs,
        "optional_outputs": [
            k for k, o in enumerate(o for o in kernel.operands if o.written) if o.optional and not o.repeat
        ],
        "combined_outputs": [k for k, o in enumerate(o for o in kernel.operands if o.written) if o.role == "inout"],
        "takes_program": any(o.role == "program" for o in kernel.operands),
        "program_if": kernel.program_if.name if kernel.program_if else None,
        "parameters": parameters,
        "variants": kernel.variants,
    }
    if kernel.loops:
        row["loops"] = [{key: value for key, value in vars(loop).items() if value} for loop in kernel.loops]
        row["maps"] = [
            {"name": o.name, "terms": o.terms(), "written": o.written, "repeat": o.repeat}
            for o in kernel.operands
            if o.role != "program"
        ]
    return row


def generate(kernels: list[Kernel], formulas: list[Pointwise]) -> str:
    table: dict[str, dict] = {}
    for kernel in kernels:
        if POINTWISE in kernel.names:
            table |= {f"pointwise.{f.name}": _row(kernel, _scalars(kernel, f)) for f in formulas}
        else:
            table |= dict.fromkeys(kernel.names, _row(kernel, {p.name: _parameter(p) for p in kernel.parameters}))
    return dumped(table)


def dumped(table: dict) -> str:
    return json.dumps(table, indent=1) + "\n"
