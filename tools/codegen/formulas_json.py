# SPDX-License-Identifier: BSD-3-Clause
"""Pointwise kernels -> their formulas, for code generators, and what steps of vector programs need to know (JSON)."""

from __future__ import annotations

import json

from .model import Pointwise
from .pointwise import FAULTING, calls


def row(p: Pointwise) -> dict:
    return {
        "formulas": p.formulas,
        "inputs": [[i.name, i.type] for i in p.inputs],
        "scalars": [s.name for s in p.scalars],
        "results": list(p.results),
        "requires": [condition for condition, _ in p.requires],
        "dtypes": list(p.dtypes),
        "integers_fault": not FAULTING.isdisjoint(calls(p.formulas.get("integer", ""))),
    }


def generate(kernels: list[Pointwise]) -> str:
    return json.dumps({f"pointwise.{p.name}": row(p) for p in kernels}, indent=1, sort_keys=True) + "\n"
