# SPDX-License-Identifier: BSD-3-Clause
"""Writes small loadables of the present format version to test/data/loadables: python tools/loadable_corpus.py.

They are committed as bytes, with the version in their names, and must keep loading in every later version: the command
makes files for a new version and never touches those of an older one. test/compiler/test_loadable_file.py replays them.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn

import torch_atalla
from torch_atalla.loadable.file.format import MAJOR, MINOR

FOLDER = Path(__file__).resolve().parents[1] / "test/data/loadables"


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(6, 8), nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.b(torch.relu(self.a(x))).softmax(-1)


class Counter(nn.Module):
    total: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.tensor([1.0, 2.0, 3.0]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(x)
        return self.total * 2


class Sorted(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sort(x + 1, stable=True)[0] * 2


def main() -> int:
    torch.manual_seed(0)
    FOLDER.mkdir(parents=True, exist_ok=True)
    n = torch.export.Dim("n", min=1, max=16)
    x = torch.randn(3, 6)
    exported = torch.export.export
    with torch.no_grad():
        programs: dict[str, Any] = {
            "mlp": exported(Mlp().eval(), (x,)),
            "bounded": exported(Mlp().eval(), (x,), dynamic_shapes=({0: n},)),
            "unbounded": exported(Mlp().eval(), (x,), dynamic_shapes=({0: torch.export.Dim("m", min=1)},)),
            "state": {"step": exported(Counter(), (torch.ones(3),)), "again": exported(Counter(), (torch.ones(3),))},
            "fallback": exported(Sorted(), (torch.randn(2, 5),)),
        }
    chip: dict[str, Any] = {"engine": "isa", "convert": "bfloat16"}
    options = {"code": {"args": (x,), **chip}, "sized-code": chip}
    programs |= {"code": Mlp().eval(), "sized-code": programs["bounded"]}
    for name, program in programs.items():
        path = FOLDER / f"{MAJOR}.{MINOR}-{name}.atl"
        if path.exists():
            print(f"{path.name} stands already")
            continue
        torch_atalla.save_loadable(program, path, **options.get(name, {}))
        print(f"{path.name}: {path.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
