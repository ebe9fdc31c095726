# SPDX-License-Identifier: BSD-3-Clause
"""Where storing matrices tile by tile pays: `python -m benchmarks.layouts [--write]`.

Cycles of SDMA tiles by the length of a matrix' rows, executed by the ISA engine, and the timing model of networks in
bfloat16 whose operands were stored otherwise, on each bank-level DRAM. --write: docs/reference/dram-layouts.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path

from torch_atalla.compiler.schedule.chip_model import ChipModel
from torch_atalla.compiler.schedule.work import Work
from torch_atalla.compiler.targets.chip.select.weights import ROW_OF_TILES
from torch_atalla.explorer.space import with_values

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/reference/dram-layouts.md"
PRESETS = ("constant", "ddr4_3200", "lpddr4_3200", "lpddr5_6400", "hbm2_2000")
WIDTHS = (32, 64, 128, 256, 512, 1024, 2048, 4096)  # elements of a row; 32: tile by tile
TILES = 128
WEIGHTS = 2  # the operand of a product


def chip_text(preset: str) -> str:
    return with_values((ROOT / "csrc/sim/chip.toml").read_text(), {"dram.preset": preset})


# ------------------------------------------------------------------------------------------------------------- tiles


def tile_cycles() -> list[float]:
    """Cycles per tile of 32 x 32 elements for each width, on the chip of this process; tiles come along the rows."""
    from torch_atalla import isa

    found = []
    for width in WIDTHS:
        meta, beside, text = 31 << 25 | 31 << 20 | width - 1, width // 32, []
        for i in range(TILES):
            address = i // beside * 64 * width + i % beside * 64
            text += [f"li.s x9, {address}", f"lui.s x30, {meta >> 7}", f"addi.s x30, x30, {meta & 127}"]
            text += ["scpad.ld x0, x9, x30"]
        machine = isa.Machine(isa.assemble("\n".join([*text, "halt.s"])), device=0)
        machine.run()
        found.append(machine.stats().cycles / TILES)
    return found


def tiles_on(preset: str) -> list[float]:
    with tempfile.TemporaryDirectory() as folder:
        chip = Path(folder) / "chip.toml"
        chip.write_text(chip_text(preset))
        command = [sys.executable, "-W", "ignore", "-m", "benchmarks.layouts", "--here"]
        environment = os.environ | {"ATALLA_CHIP_CONFIG": str(chip)}
        done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


# ---------------------------------------------------------------------------------------------------------- networks


@dataclass(frozen=True)
class OtherLayouts(ChipModel):
    """A chip for which all constant weights, or all other operands, are stored tile by tile."""

    weights_by_tile: bool = False
    others_by_tile: bool = False

    def tile_cycles(self, beside: int) -> float:
        chip = ChipModel(**{field.name: getattr(self, field.name) for field in fields(ChipModel)})
        return 1.0 if self.weights_by_tile else chip.tile_cycles(beside)

    def cycles(self, work: Work, resident: int = 0, cores: int = 1) -> int:
        raw = type(work.raw).from_buffer_copy(work.raw)
        for k, place in enumerate(raw.layout):
            is_weight = k == WEIGHTS and raw.weight_rows
            if self.others_by_tile and not is_weight and place.pitch > place.row_bytes != 0:
                place.pitch = place.row_bytes
        return super().cycles(replace(work, raw=raw), resident, cores)


def networks() -> Iterator[tuple[str, dict[str, tuple[int, int, int]]]]:
    """For each preset the cycles with weights tile by tile, as compiled, and with all other operands tile by tile."""
    import torch

    from torch_atalla.compiler.targets.chip.build import compile_model
    from torch_atalla.compiler.targets.chip.estimate import estimates
    from torch_atalla.compiler.targets.functional.pipeline import device_chip

    sys.path.insert(0, str(ROOT / "test/support"))
    import isa_networks

    chip = device_chip()
    for name, make in isa_networks.NETWORKS.items():
        torch.manual_seed(0)
        network = compile_model(*make(), convert=True, chip=chip).network
        found = {}
        for preset in PRESETS[1:]:
            same = vars(chip) | {"text": chip_text(preset)}
            models = [OtherLayouts(**same, **{variant: True}) for variant in ("weights_by_tile", "others_by_tile")]
            models.insert(1, OtherLayouts(**same))
            by_tile, compiled, others = (sum(c or 0 for c in estimates(network, model)) for model in models)
            found[preset] = (by_tile, compiled, others)
        yield name.partition(" (")[0], found


# -------------------------------------------------------------------------------------------------------------- page


def rows(head: list[str], body: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *body))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.layouts", description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write docs/reference/dram-layouts.md")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.here:
        print(json.dumps(tile_cycles()))
        return
    tiles = rows(
        ["DRAM", *(str(width) for width in WIDTHS)],
        [[f"`{preset}`", *(f"{cycles:,.0f}" for cycles in tiles_on(preset))] for preset in PRESETS],
    )
    found = dict(networks())
    bodies = [
        [f"{name}, `{preset}`", f"{by_tile:,}", f"{compiled:,}", f"{compiled / by_tile - 1:+.0%}"]
        + [f"{others / compiled - 1:+.1%}"]
        for name, presets in found.items()
        for preset, (by_tile, compiled, others) in presets.items()
    ]
    bounds = [others / compiled - 1 for presets in found.values() for _, compiled, others in presets.values()]
    text = f"""# Layouts of matrices in DRAM

This page shows where storing matrices tile by tile pays on a bank-level DRAM. It is generated by
`python -m benchmarks.layouts --write`. [dram.md](../concepts/dram.md) explains the model.

## Tiles

Cycles of the ISA engine per tile of 32 x 32 elements of 2 bytes, by the number of elements in a row of the matrix.
Tiles are loaded along the rows. A matrix of 32 columns is stored tile by tile: each tile is one piece of 2,048 bytes.

{tiles}

## Networks

Cycles of the timing model for the code of networks in bfloat16.

- The compiler stores the tiles of constant weights one after another, or {ROW_OF_TILES} of them side by side, as rows
  of {ROW_OF_TILES * 32:,} elements, if tiles take fewer cycles that way
  (`torch_atalla/compiler/targets/chip/select/weights.py`). The first two columns of cycles compare the choice with
  tiles that always follow each other.
- All other operands are stored row by row. The last column is the change if they were stored tile by tile, at no cost
  for the ops that address single elements. No layout of activations can gain more. It is between {min(bounds):+.1%} and
  {max(bounds):+.1%}, so the compiler has no such layouts.

{rows(["network, DRAM", "weights tile by tile", "as compiled", "change", "activations tile by tile"], bodies)}
"""
    print(text)
    if args.write:
        PAGE.write_text(text)


if __name__ == "__main__":
    main()
