# SPDX-License-Identifier: BSD-3-Clause
"""What the tools that compare models and libraries on two devices share: options, rows, differences of results."""

from __future__ import annotations

import argparse
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import nn
from torch.utils._pytree import tree_leaves, tree_map_only

from tools.pages import ROOT

Result = TypeVar("Result")

TOLERANCE = 1e-4  # of difference() for float32


def options(doc: str | None, page: Path) -> argparse.ArgumentParser:
    """--only and --write, of which parsed() allows one."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="REGEX", help="only rows whose name matches")
    parser.add_argument("--write", action="store_true", help=f"write {page.relative_to(ROOT)}")
    return parser


def parsed(parser: argparse.ArgumentParser, argv: list[str] | None = None) -> argparse.Namespace:
    """The options; --write refuses a part of the rows. Warnings of libraries are off from here on."""
    args = parser.parse_args(argv)
    if args.write and args.only:
        parser.error("--write: expected a run of all rows, without --only")
    warnings.simplefilter("ignore")
    return args


def measured(
    names: Iterable[str], only: str, measure: Callable[[str], Result], show: Callable[[Result], str]
) -> list[Result]:
    """The results for the names that match, each printed at once."""
    results = []
    for name in names:
        if re.search(only, name):
            results.append(measure(name))
            print(show(results[-1]), flush=True)
    return results


def missing_op(error: Exception) -> str:
    """The op that has no kernel, or the beginning of what the error says."""
    found = re.search(r"operator '([^']+)'|^(\w+_overrideable)", str(error))
    return found[found.lastindex or 0] if found else str(error)[:80]


def on_device(value: Any) -> Any:
    """The same containers with their tensors on the device."""
    return tree_map_only(torch.Tensor, lambda x: x.to("atalla"), value)


def difference(found: torch.Tensor, expected: torch.Tensor) -> float:
    """Largest difference over the largest value expected; inf for other shapes, dtypes or places of infinities."""
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return float("inf")
    if not (expected.is_floating_point() or expected.is_complex()):
        return 0.0 if torch.equal(found, expected) else float("inf")
    finite = expected.isfinite()
    if not torch.equal(finite, found.isfinite()) or not torch.equal(expected.isnan(), found.isnan()):
        return float("inf")
    if not torch.equal(expected[expected.isinf()], found[expected.isinf()]):
        return float("inf")
    if not finite.any():
        return 0.0
    wide = torch.complex128 if expected.is_complex() else torch.float64
    scale = expected[finite].to(wide).abs().max().item() or 1.0
    return (found.to(wide) - expected.to(wide))[finite].abs().max().item() / scale


def tensors(output: Any) -> list[torch.Tensor]:
    """All tensors of a model's output, in order."""
    values = list(output.values()) if hasattr(output, "values") else output
    return [x for x in tree_leaves(values) if isinstance(x, torch.Tensor)]


def floating(output: Any) -> list[torch.Tensor]:
    """The tensors of floating-point dtypes of a model's output, in order."""
    return [x for x in tensors(output) if x.is_floating_point()]


class Tensors(nn.Module):
    """A model's results without the containers that only its library knows. select: tensors, or floating. fixed: inputs
    that are constants of the module, such as sizes of images."""

    def __init__(
        self, model: nn.Module, select: Any = floating, fixed: Mapping[str, torch.Tensor] | None = None
    ) -> None:
        super().__init__()
        self.model = model
        self.select = select
        self.fixed = list(fixed or {})
        for name, value in (fixed or {}).items():
            self.register_buffer(f"fixed_{name}", value)

    def forward(self, **inputs: Any) -> list[torch.Tensor]:
        fixed = {name: getattr(self, f"fixed_{name}") for name in self.fixed}
        return self.select(self.model(**inputs, **fixed))
