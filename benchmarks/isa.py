# SPDX-License-Identifier: BSD-3-Clause
"""Speed of the ISA engine: python -m benchmarks.isa [--quick] [--json FILE] [--write-docs]

Packets a second in the GEMM loop on one core, with the cycle model and without, of two machines on two cores, and, as
the peer, of the reference interpreter (test/support/isa_reference.py) on the same packets. The loop is the inner one of
a product with reused weights: one packet a row of the array, with the load of a coming row, the store of a finished
one, and the address arithmetic.
Seconds are CPU time of the thread, so that other work on the machine counts less; with two machines, elapsed time.
--write-docs: the table of docs/concepts/isa-engine.md.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from pathlib import Path

import numpy as np

from tools.pages import table, write_section
from torch_atalla import isa
from torch_atalla.isa import ops

from . import machine

PAGE = Path(__file__).resolve().parents[1] / "docs/concepts/isa-engine.md"

ROWS = 32
WEIGHTS, INPUT = 1, 64  # vector registers: 32 activation rows in each half, then C
LOOPS = 20_000


def gemm_loop(loops: int) -> isa.Program:
    """32 warm-up pushes, then `loops` times 32 packets of a row of the array each."""
    program = isa.Program()
    program.append(ops.li_s(1, loops))
    program.append(ops.li_s(2, 1 << 16))
    for i in range(ROWS):
        program.append(ops.vreg_ld(WEIGHTS + i, 2, 0, 1, 32))
    for i in range(ROWS):
        program.append(ops.lw_vi(WEIGHTS + i))
    program.label("loop")
    for i in range(ROWS):
        coming = INPUT + (i + 16) % ROWS
        row = ops.gemm_vv(128 + i, INPUT + i, 128 + i)
        slots = [row, ops.vreg_ld(coming, 2, 0, 0, 32), ops.addi_s(4, 4, 64)]
        if i == ROWS - 1:
            slots = [ops.bne_s(3, 1, "loop"), *slots[:2], ops.addi_s(4, 4, 64)]
        elif i == 0:
            slots[2] = ops.addi_s(3, 3, 1)
        elif i % 4 == 0:
            slots.append(ops.vreg_st(160 + i, 2, 0, 1, 32))
        program.append(*slots)
    program.append(ops.halt_s())
    problems = isa.check(program)
    if problems:
        raise AssertionError(problems[0])
    return program


def make_machine(code: isa.Code, timing: bool) -> isa.Machine:
    made = isa.Machine(code, timing=timing)
    rng = np.random.default_rng(0)
    for sid in (0, 1):
        made.write_scratchpad(sid, 0, rng.standard_normal((2048, 32), np.float32))
    return made


def measure_two(code: isa.Code, seconds: float) -> float:
    """Best packets a second of two machines at the same time, in runs that fill `seconds`."""
    best, begin = 0.0, time.perf_counter()
    while time.perf_counter() - begin < seconds:
        machines = [make_machine(code, True) for _ in range(2)]
        threads = [threading.Thread(target=one.run) for one in machines]
        start = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        taken = time.perf_counter() - start
        best = max(best, sum(one.stats().packets for one in machines) / taken)
    return best


def measure(code: isa.Code, timing: bool, seconds: float) -> tuple[float, isa.Stats]:
    """Best packets a second of runs that fill `seconds`; and what one run did."""
    best, begin = 0.0, time.perf_counter()
    while True:
        made = make_machine(code, timing)
        start = time.thread_time()
        made.run()
        taken = time.thread_time() - start
        stats = made.stats()
        best = max(best, stats.packets / taken)
        if time.perf_counter() - begin > seconds:
            return best, stats


def measure_reference(packets: int) -> float:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "test/support"))
    import isa_reference

    machine = isa_reference.Machine(gemm_loop(1 << 20), bytearray(1 << 12))
    machine.run(66)  # the loop is what is measured
    start = time.thread_time()
    machine.run(packets)
    return packets / (time.thread_time() - start)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.isa", description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a short run: to try it, not to publish")
    parser.add_argument("--json", metavar="FILE", help="write the numbers there")
    parser.add_argument("--write-docs", action="store_true", help=f"write the table of {PAGE.name}")
    args = parser.parse_args(argv)
    meanwhile = machine.OtherWork()
    code = isa.Code(gemm_loop(LOOPS // 10 if args.quick else LOOPS))
    seconds = 0.3 if args.quick else 4.0
    timed, stats = measure(code, True, seconds)
    untimed, _ = measure(code, False, seconds)
    both = measure_two(isa.Code(gemm_loop(LOOPS * (1 if args.quick else 10))), seconds)
    reference = measure_reference(32 if args.quick else 128)
    found = {
        "packets_per_second": timed,
        "packets_per_second_without_cycle_model": untimed,
        "packets_per_second_of_two": both,
        "reference_packets_per_second": reference,
        "speedup": timed / reference,
        "cycles_per_packet": stats.cycles / stats.packets,
        "array_utilisation": stats.utilisation("gsau"),
    }
    print(f"ISA engine, GEMM loop, one core   {timed / 1e6:8.2f} M packets/s")
    print(f"  without the cycle model         {untimed / 1e6:8.2f} M packets/s")
    print(f"  two machines, two cores         {both / 1e6:8.2f} M packets/s")
    print(f"reference interpreter (Python)    {reference / 1e6:8.6f} M packets/s, engine {timed / reference:.0f} times")
    print(stats)
    if args.json:
        Path(args.json).write_text(json.dumps(found, indent=1) + "\n")
    if args.write_docs:
        rows = (
            ("engine", timed),
            ("engine without the cycle model (`timing=False`)", untimed),
            ("two machines on two cores", both),
        )
        about = machine.describe() | {"other_work_cpus": round(meanwhile.cpus(), 2)}
        cells = [(name, f"{speed / 1e6:.1f}") for name, speed in rows]
        cells.append(("reference interpreter in Python", f"{reference / 1e6:.6f}"))
        lines = [*table("engine | million packets per second:", cells), ""]
        lines += [f"Measured with: {', '.join(f'{name} {value}' for name, value in about.items())}."]
        write_section(PAGE, "benchmarks.isa", lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
