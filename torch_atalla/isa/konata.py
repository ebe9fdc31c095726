# SPDX-License-Identifier: BSD-3-Clause
"""A pipeline trace in the log format of the viewer Konata (https://github.com/shioyadan/Konata, version 0004)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from .disassembler import branch_targets
from .engine import Machine
from .instruction import Instruction, format_instruction
from .profile import CallSite, issue_clock
from .table import PACKET_BYTES, table

WAIT, ISSUE, EXECUTE = "W", "I", "X"  # stages
_AFTER_ISSUE = ("branch", "firmware", "barrier")  # stalls that delay the next packet


def trace(
    machine: Machine,
    out: TextIO,
    calls: Sequence[tuple[int, CallSite]] = (),
    max_packets: int = 1000,
    first_call: int = 0,
) -> int:
    """Run up to `max_packets` packets, and write one line of the pipeline per instruction. Return the packets written.

    An instruction waits (W) from the cycle after the previous packet's issue, issues (I), and executes (X) until its
    result is ready; an SDMA instruction until its transfer ends. Latencies are those of the built-in chip.

    calls: as of `profile`; a label names the call to which its instruction belongs. first_call: the trace begins with
    this call, counted from 1; 0: with the program. ValueError for a call that the program does not have.
    """
    events: list[tuple[int, int, str]] = []  # cycle, order, line
    labels, site = branch_targets(machine.program), CallSite("")
    pending = _run_to_call(machine, calls, first_call)
    identifier, packets, known_end = 0, 0, 0

    def event(cycle: int, line: str) -> None:
        events.append((cycle, len(events), line))

    before = machine.stats()
    while packets < max_packets and machine.stop not in ("halted", "fault"):
        pc = machine.pc
        if pending and pc == pending[0][0]:
            site = pending.pop(0)[1]
        machine.run(1)
        after = machine.stats()
        head = issue_clock(before)
        waited = {name: n - before.stall_cycles[name] for name, n in after.stall_cycles.items()}
        issue = head + sum(n for name, n in waited.items() if name not in _AFTER_ISSUE)
        index = pc // PACKET_BYTES
        for slot, instruction in enumerate(machine.program.packets[index]):
            if not isinstance(instruction, Instruction) or instruction.spec.name == "nop.s":
                continue
            end = issue + max(table().cycles[instruction.spec.latency][0], 1)
            known_end = max(known_end, end)
            if instruction.spec.unit == "sdma":
                end = max(end, after.cycles if after.cycles > known_end else 0)
            text = format_instruction(instruction, index, labels)
            event(head, f"I\t{identifier}\t{index}\t0")
            event(head, f"L\t{identifier}\t0\t{pc:08X}.{slot} {site.function}{': ' * bool(site.function)}{text}")
            event(head, f"L\t{identifier}\t1\t{instruction.spec.unit} {site.node} {site.source}".rstrip())
            stages = [(head, issue, WAIT), (issue, issue + 1, ISSUE), (issue + 1, end, EXECUTE)]
            for begin, stop, stage in stages:
                if stop > begin:
                    event(begin, f"S\t{identifier}\t0\t{stage}")
                    event(stop, f"E\t{identifier}\t0\t{stage}")
            event(max(end, issue + 1), f"R\t{identifier}\t{identifier}\t0")
            identifier += 1
        before, packets = after, packets + 1
    _write(events, out)
    return packets


def _run_to_call(machine: Machine, calls: Sequence[tuple[int, CallSite]], number: int) -> list[tuple[int, CallSite]]:
    """Run to the first packet of a call. Return it and the later ones."""
    if not 0 <= number <= len(calls):
        raise ValueError(f"call {number}: expected 1 to {len(calls)}, or 0 for the start of the program")
    addresses = {address for address, _ in calls}
    for address in addresses:
        machine.breakpoint(address)
    for _ in range(number):
        machine.run()
    for address in addresses:
        machine.breakpoint(address, enable=False)
    return list(calls[max(number - 1, 0) :])


def _write(events: list[tuple[int, int, str]], out: TextIO) -> None:
    now = min((cycle for cycle, _, _ in events), default=0)
    out.write(f"Kanata\t0004\nC=\t{now}\n")
    for cycle, _, line in sorted(events):
        if cycle > now:
            out.write(f"C\t{cycle - now}\n")
            now = cycle
        out.write(line + "\n")
