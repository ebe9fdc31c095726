# SPDX-License-Identifier: BSD-3-Clause
"""Pointwise kernels -> what the ahead-of-time compiler must know to make a step of a vector program of one (JSON)."""

from __future__ import annotations

import json

from .model import Pointwise
from .pointwise import FAULTING, calls

MAX_SOURCES = 4  # kProgramSources of csrc/sim/kernels/pointwise/vector_program.h


def row(p: Pointwise) -> dict:
    return {
        "inputs": [i.type for i in p.inputs],
        "result": p.results[0],
        "dtypes": list(p.dtypes),
        "integers_fault": not FAULTING.isdisjoint(calls(p.formulas.get("integer", ""))),
    }


def generate(kernels: list[Pointwise]) -> str:
    """Those with one result, few sources, and no requirement of their elements."""
    taken = [p for p in kernels if len(p.results) == 1 and 1 <= len(p.inputs) <= MAX_SOURCES and not p.requires]
    return json.dumps({f"pointwise.{p.name}": row(p) for p in taken}, indent=1, sort_keys=True) + "\n"
