# SPDX-License-Identifier: BSD-3-Clause
"""What residents and cores save: `python -m tools.schedule_table [--write]`, the table of docs/concepts/aot.md."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import torch

from benchmarks.loadable.models import make
from torch_atalla import chip
from torch_atalla.compiler import compile_program
from torch_atalla.compiler.schedule import chip_model, decide

DOCS = Path(__file__).resolve().parents[1] / "docs/concepts/aot.md"
MODELS = {"MLP": "mlp", "MiniLM-L6": "minilm", "GPT": "gpt", "ViT": "vit"}
HEAD = ("model", "launches", "cycles from DRAM", "with residents", "2 cores", "4 cores", "scratchpad bytes")


def row(title: str, name: str) -> tuple[str, ...]:
    """The cycles of a model as a functional loadable, by the schedule."""
    compiled = compile_program(torch.export.export(*make(name)))
    text, one = chip.config_text(0), 'count = { value = 1, unit = "cores"'
    assert one in text
    found = []
    for cores in (1, 2, 4):
        model = chip_model(text.replace(one, one.replace("1", str(cores), 1)))
        found.append(decide(compiled.program, compiled.plan, model))
    numbers = [sum(found[0].baseline), *(sum(schedule.predicted) for schedule in found)]
    held = max((item.offset + item.nbytes for item in found[0].residents), default=0)
    launches = sum(cycles > 0 for cycles in found[0].baseline)
    return (title, *(f"{number:,}" for number in (launches, *numbers, held)))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.schedule_table", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the table into docs/concepts/aot.md")
    args = parser.parse_args()
    rows = [HEAD, ["---"] * len(HEAD), *(row(title, name) for title, name in MODELS.items())]
    text = "\n".join(f"| {' | '.join(cells)} |" for cells in rows)
    print(text)
    if args.write:
        page = DOCS.read_text()
        DOCS.write_text(
            re.sub(r"(<!-- begin: schedules -->\n).*?(\n<!-- end -->)", lambda m: m[1] + text + m[2], page, flags=re.S)
        )


if __name__ == "__main__":
    main()
