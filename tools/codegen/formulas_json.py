# SPDX-License-Identifier: BSD-3-Clause
"""Pointwise kernels -> their formulas, for the scalar core's code generator (JSON)."""

from __future__ import annotations

import json

from .model import Pointwise


def row(p: Pointwise) -> dict:
    return {
        "formulas": p.formulas,
        "inputs": [[i.name, i.type] for i in p.inputs],
        "scalars": [s.name for s in p.scalars],
        "optional": [s.name for s in p.scalars if s.optional],
        "results": list(p.results),
        "requires": [condition for condition, _ in p.requires],
    }


def generate(kernels: list[Pointwise]) -> str:
    return json.dumps({f"pointwise.{p.name}": row(p) for p in kernels}, indent=1, sort_keys=True) + "\n"
