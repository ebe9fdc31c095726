# SPDX-License-Identifier: BSD-3-Clause
"""Compares the chip's code with SCALE-Sim 3: `python -m benchmarks.validate_chip [--write-docs] [--only NAME ...]`.

Layers of ResNet-18, AlexNet, MiniLM and BERT, on the geometry of csrc/sim/chip.toml: cycles of the array, DRAM traffic,
utilisation. A difference above 5 % that the causes of benchmarks.validation.causes do not explain ends the command with
exit code 1. SCALE-Sim gets an environment of its own in build/scalesim, where its results are kept.

--only: layers whose name begins with one of these; nothing is written. --write-docs: docs/reference/validation.md.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from torch_atalla.driver.extension import _C

from .validation import causes, scalesim_runner
from .validation.cases import NETWORKS, Layer
from .validation.engines import measure
from .validation.report import Comparison, page

DOCS = Path(__file__).resolve().parents[1] / "docs/reference/validation.md"
LIMIT = 0.05  # of a difference that needs a cause


def geometry() -> dict[str, int]:
    """The chip as SCALE-Sim takes it, sizes in elements.

    Scratchpad 0 holds the image, scratchpad 1 the filters; SCALE-Sim too uses one half and fills the other. Results are
    accumulated in the vector registers.
    """
    found = _C.properties(0)
    elements = found["scratchpad_bytes"] // causes.BF16_BYTES
    size = found["array_rows"]
    return {
        "rows": size,
        "columns": found["array_columns"],
        "image_elements": elements,
        "filter_elements": elements,
        "result_elements": causes.BLOCK_ROWS * size,
    }


def compare(layers: list[Layer]) -> list[Comparison]:
    """Run both simulators and find the causes of their differences."""
    chip = geometry()
    size = chip["rows"]
    figures = scalesim_runner.run(layers, chip)
    found = []
    for layer in layers:
        there, here = figures[layer], measure(layer)
        array = causes.array_cycles(layer, size, there["cycles"], here.array)
        found.append(Comparison(layer, there, here, array, causes.traffic(layer, size, there, here.bytes)))
    return found


def unexplained(found: list[Comparison]) -> list[str]:
    """What no cause explains, one line each."""
    lines = []
    for c in found:
        remaining = {
            "cycles of the array": c.array.residual,
            "DRAM traffic": c.traffic.residual,
            "cycles that the device reports": c.here.reported / c.here.cycles - 1,
        }
        lines += [f"{c.layer.name}: {what} {part:+.1%}" for what, part in remaining.items() if abs(part) > LIMIT]
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.validate_chip", description=__doc__)
    parser.add_argument("--write-docs", action="store_true", help="write docs/reference/validation.md")
    parser.add_argument("--only", metavar="NAME", nargs="+", help="layers whose name begins with one of these")
    args = parser.parse_args()
    scalesim_runner.install()
    chosen = tuple(args.only or ("",))
    networks = {name: [layer for layer in layers if layer.name.startswith(chosen)] for name, layers in NETWORKS.items()}
    found = {name: compare(layers) for name, layers in networks.items() if layers}
    text = page(found, published=not args.only)
    print(text)
    if args.write_docs and not args.only:
        DOCS.write_text(text)
    problems = [line for part in found.values() for line in unexplained(part)]
    print("\n".join(["", f"{len(problems)} differences without a cause", *problems]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
