# SPDX-License-Identifier: BSD-3-Clause
"""The networks of tools.clock_networks as exported programs, which are kept in build/clock_networks."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch.export import ExportedProgram

from tools.architectures.worker import IMPORTED
from tools.comparison import Tensors, tensors
from tools.model_zoo import MODELS
from tools.pages import ROOT

KEPT = ROOT / "build/clock_networks"
OPERATORS = (*IMPORTED, "transformers.integrations.moe")  # register what exported programs call


def names(groups: list[str]) -> list[str]:
    """Of all networks in these of GROUPS, as "group/name"."""
    return [f"{group}/{name}" for group in groups for name in GROUPS[group][0]()]


def program(name: str) -> ExportedProgram:
    """As exported, with the inputs that the model was exported for."""
    for module in OPERATORS:
        importlib.import_module(module)
    path = KEPT / "programs" / f"{name.replace('/', '.')}.pt2"
    if not path.exists():
        group, _, own = name.partition("/")
        torch.manual_seed(0)
        with torch.no_grad():
            made = GROUPS[group][1](own)
        path.parent.mkdir(parents=True, exist_ok=True)
        written = path.with_suffix(f".{os.getpid()}.pt2")
        torch.export.save(made, written)
        written.replace(path)
    return torch.export.load(path)


def _zoo(name: str) -> ExportedProgram:
    model, inputs = MODELS[name]()
    return torch.export.export(Tensors(model), (), inputs, strict=False)


def _full() -> dict[str, Callable[[], Any]]:
    sys.path.insert(0, str(ROOT / "test/support"))
    import isa_networks

    return {name.partition(" (")[0]: make for name, make in isa_networks.NETWORKS.items()}


def _full_size(name: str) -> ExportedProgram:
    if name == "the demo":
        from torch_atalla.cli.demo import TOKENS, ByteModel, batches, read_text

        return torch.export.export(ByteModel().eval(), (batches(read_text(), 1)[0][:, :TOKENS],), strict=False)
    model, given = _full()[name]()
    return torch.export.export(model.eval(), given, strict=False)


def _transformers() -> list[str]:
    """Those that run as loadables, by the page."""
    from tools.architectures.registry import model_types

    page = (ROOT / "docs/reference/architectures.md").read_text().partition("## Equal to the CPU")[2]
    rows = (line.split(" | ") for line in page.partition("\n## ")[0].splitlines() if line.startswith("| "))
    found = {cells[1] for cells in rows}
    return [name for name in model_types() if name in found]


def _architecture(name: str) -> ExportedProgram:
    from tools.architectures.inputs import SIZES
    from tools.architectures.measure import Result, export, fitting

    result = Result(name)
    model, several = fitting(name, result)
    inputs = several[0]
    fixed = {key: inputs.pop(key) for key in SIZES if key in inputs}
    return export(Tensors(model, tensors, fixed), inputs, result)[0]


# Name -> the names of the networks in it, and what exports each.
GROUPS: dict[str, tuple[Callable[[], list[str]], Callable[[str], ExportedProgram]]] = {
    "small": (lambda: list(MODELS), _zoo),
    "full size": (lambda: ["the demo", *_full()], _full_size),
    "transformers": (_transformers, _architecture),
}
