# SPDX-License-Identifier: BSD-3-Clause
"""What the code of a program keeps in scratchpads and how it divides launches, for the launches of the functional
engine: both engines then run one schedule."""

from __future__ import annotations

from collections import defaultdict

from ...program.ir import Instruction, LinearProgram
from ...schedule.decide import Decisions
from .network import Network, Selected


def decisions(program: LinearProgram, network: Network) -> Decisions:
    """For the program after its passes, of which the network is the code. A launch that the code has to make in parts
    counts as one of one core."""
    kept = {buffer for buffer, region in network.regions.items() if region in network.kept}
    own: defaultdict[str, list[int]] = defaultdict(list)
    for place, inst in enumerate(program.instructions):
        own[inst.node].append(place)
    found: defaultdict[str, list[Selected]] = defaultdict(list)
    for item in network.launches:
        found[item.launch.node].append(item)
    buffers, cores = set(), [1] * len(program.instructions)
    for node, places in own.items():
        if len(places) != len(found[node]):
            continue
        for place, item in zip(places, found[node]):
            cores[place] = len(item.division.parts)
            buffers |= _same(program.instructions[place], item.launch, kept)
    return Decisions(frozenset(buffers), tuple(cores))


def _same(inst: Instruction, launch: Instruction, kept: set[int]) -> set[int]:
    """The buffers that the instruction writes where the launch of the code writes a kept one."""
    return {mine.buffer for mine, other in zip(inst.writes(), launch.writes()) if other.buffer in kept}
