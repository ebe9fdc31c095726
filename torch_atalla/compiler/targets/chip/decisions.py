# SPDX-License-Identifier: BSD-3-Clause
"""What the code of a program keeps in scratchpads and how it divides launches, for the launches of the functional
engine: both engines then run one schedule."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict

from ...program.ir import Instruction, LinearProgram
from ...schedule.decide import Decisions
from .network import Network


def decisions(program: LinearProgram, network: Network) -> Decisions:
    """For the program after its passes, of which the network is the code. A launch that the code has to make in parts
    counts as one of one core."""
    kept = {buffer for buffer, region in network.regions.items() if region in network.kept}
    places = counterparts(program, network)
    own, found = (
        Counter(x.node for x in some) for some in (program.instructions, (i.launch for i in network.launches))
    )
    buffers, cores = set(), [1] * len(program.instructions)
    for place, item in zip(places, network.launches):
        if own[item.launch.node] == found[item.launch.node]:
            cores[place] = len(item.division.parts)
            buffers |= _same(program.instructions[place], item.launch, kept)
    return Decisions(frozenset(buffers), tuple(cores))


def counterparts(program: LinearProgram, network: Network) -> list[int]:
    """For each launch of the code, the number of the instruction that it computes: of those of its node the one with
    its place among the node's launches, or the last."""
    own: defaultdict[str, list[int]] = defaultdict(list)
    for number, inst in enumerate(program.instructions):
        own[inst.node].append(number)
    found, seen = list[int](), defaultdict[str, int](int)
    for item in network.launches:
        numbers, place = own[item.launch.node], seen[item.launch.node]
        found.append(numbers[min(place, len(numbers) - 1)] if numbers else found[-1] if found else 0)
        seen[item.launch.node] += 1
    return found


def call_instructions(program: LinearProgram, network: Network) -> list[int]:
    """For each call of the code, the number of the instruction that it computes."""
    firsts = [item.first_call for item in network.launches]
    places = counterparts(program, network)
    return [places[max(0, bisect_right(firsts, call) - 1)] for call in range(len(network.image.calls))]


def _same(inst: Instruction, launch: Instruction, kept: set[int]) -> set[int]:
    """The buffers that the instruction writes where the launch of the code writes a kept one."""
    return {mine.buffer for mine, other in zip(inst.writes(), launch.writes()) if other.buffer in kept}
