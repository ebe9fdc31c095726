# SPDX-License-Identifier: BSD-3-Clause
"""The op list as the package reads it (JSON): the support table of overloads for the ahead-of-time compiler and the
tests, and formulas for code generators and vector programs."""

from __future__ import annotations

import json

from .model import Entry, Pointwise
from .pointwise import FAULTING, calls
from .registrations import overloads


def dumped(table: dict) -> str:
    return json.dumps(table, indent=1, sort_keys=True) + "\n"


def qualified(overload: str) -> str:
    return f"aten.{overload}" if "." in overload else f"aten.{overload}.default"


def row(entry: Entry) -> dict:
    data: dict = {
        "entry": entry.op,
        "family": entry.family,
        "kernel": entry.kernels[0],
        "kernels": list(entry.kernels),
        "promotion": entry.promotion,
        "dtypes": list(entry.compute_dtypes),
        "input_dtypes": list(entry.input_dtypes),
        "adaptor": entry.adaptor,
    }
    if entry.variants:
        data |= {"variant_arg": entry.variant_arg, "variants": entry.variants}
    if entry.pointwise:
        p = entry.pointwise[0]
        data |= {
            "inputs": [i.name for i in p.inputs],
            "input_types": [i.type for i in p.inputs],
            "scalars": [s.name for s in p.scalars],
            "optional_scalars": [s.name for s in p.scalars if s.optional],
            "result": p.result,
        }
    elif entry.family == "pointwise":
        args = [a.name for a in entry.function.func.arguments.flat_non_out]
        data |= {
            "inputs": args,
            "input_types": ["compute"] * len(args),
            "scalars": [],
            "optional_scalars": [],
            "result": "bool" if entry.promotion == "bool" else "same",
        }
    return data


def support(entries: list[Entry]) -> str:
    return dumped({qualified(o): row(e) for e in entries for o in overloads(e)})


def formula(p: Pointwise) -> dict:
    return {
        "formulas": p.formulas,
        "inputs": [[i.name, i.type] for i in p.inputs],
        "scalars": [s.name for s in p.scalars],
        "results": list(p.results),
        "requires": [condition for condition, _ in p.requires],
        "dtypes": list(p.dtypes),
        "integers_fault": not FAULTING.isdisjoint(calls(p.formulas.get("integer", ""))),
    }


def formulas(kernels: list[Pointwise]) -> str:
    return dumped({f"pointwise.{p.name}": formula(p) for p in kernels})
