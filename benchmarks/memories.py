# SPDX-License-Identifier: BSD-3-Clause
"""What a bank-level DRAM costs the simulator: `python -m benchmarks.memories [--write-docs]`.

Functional launches and ISA packets a second of CPU time, with each preset, over those with the constant memory. Each
memory is measured in a process of its own. The processes take turns, so that a sample of each is beside one of the
constant memory.
--write-docs: the table of docs/concepts/dram.md.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

from tools.pages import table, write_section
from torch_atalla.explorer.space import with_values

from .harness import Spread

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/concepts/dram.md"
MEMORIES = ("constant", "ddr4_3200", "lpddr4_3200", "lpddr5_6400", "hbm2_2000")
ROUNDS, LAUNCHES = 9, 4000


def serve() -> None:
    """Of the chip that the environment names: a line with launches and packets a second for each line of the input."""
    import torch

    from torch_atalla.compiler.capture.narrow import to_bfloat16
    from torch_atalla.compiler.targets.chip.build import compile_model
    from torch_atalla.compiler.targets.chip.place import place_network
    from torch_atalla.compiler.targets.functional.pipeline import device_chip
    from torch_atalla.isa.engine import Machine

    sys.path.insert(0, str(ROOT / "test/support"))
    import isa_networks

    torch.manual_seed(0)
    model, args = isa_networks.gpt()
    network = compile_model(model, args, convert=True, chip=device_chip()).network
    code, given = network.code(), [to_bfloat16(x) for x in args]
    x, out = torch.ones(64, 64, device="atalla:1"), torch.empty(64, 64, device="atalla:1")

    def launches() -> float:
        start = time.process_time()
        for _ in range(LAUNCHES // 2):
            torch.add(x, x, out=out)
            torch.mul(x, x, out=out)
        torch.accelerator.synchronize(1)
        return LAUNCHES / (time.process_time() - start)

    def packets() -> float:
        placed = place_network(network, given)
        machine = Machine(code, placed.memory, args=(placed.table,), device=1, cores=network.image.cores)
        start = time.process_time()
        machine.run()
        return machine.stats().packets / (time.process_time() - start)

    launches(), packets()
    for _ in sys.stdin:
        print(launches(), packets(), flush=True)


def measure() -> dict[str, list[tuple[float, float]]]:
    """Launches and packets a second of each memory, sample by sample."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in MEMORIES}
    with tempfile.TemporaryDirectory() as folder:
        workers = {name: _worker(name, Path(folder)) for name in MEMORIES}
        for _ in range(ROUNDS):
            for name, worker in workers.items():
                commands, answers = cast("IO[str]", worker.stdin), cast("IO[str]", worker.stdout)
                commands.write("go\n")
                commands.flush()
                launches, packets = map(float, answers.readline().split())
                found[name].append((launches, packets))
        for worker in workers.values():
            worker.communicate()
    return found


def _worker(name: str, folder: Path) -> subprocess.Popen[str]:
    chip = folder / f"{name}.toml"
    chip.write_text(with_values((ROOT / "csrc/sim/chip.toml").read_text(), {"dram.preset": name}))
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.memories", "--serve"]
    environment = os.environ | {"ATALLA_CHIP_CONFIG": str(chip), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


HEAD = "memory | launches, 1000/s | of constant | packets, million/s | of constant"


def rows(found: dict[str, list[tuple[float, float]]]) -> Iterator[list[str]]:
    for name, samples in found.items():
        cells = [f"`{name}`"]
        for k, unit in ((0, 1e3), (1, 1e6)):
            ratio = Spread.of([a[k] / b[k] for a, b in zip(samples, found["constant"], strict=True)])
            speed = Spread.of([sample[k] / unit for sample in samples])
            cells += [f"{speed.median:.1f}", f"{ratio.median:.2f} ({ratio.low:.2f} to {ratio.high:.2f})"]
        yield cells


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memories", description=__doc__.splitlines()[0])
    parser.add_argument("--write-docs", action="store_true", help="write the table of docs/concepts/dram.md")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        serve()
        return
    lines = table(HEAD, rows(measure()))
    print("\n".join(lines))
    if args.write_docs:
        write_section(PAGE, "benchmarks.memories", lines)


if __name__ == "__main__":
    main()
