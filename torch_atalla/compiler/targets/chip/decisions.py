# SPDX-License-Identifier: BSD-3-Clause
"""Which instructions of the functional engine the launches and calls of a program's code compute: both engines run one
schedule."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict

from ...program.ir import LinearProgram
from .network import Network


def cores_of(program: LinearProgram, network: Network) -> tuple[int, ...]:
    """For each instruction of the program after its passes, of which the network is the code, the cores over which the
    code divides it. A launch that the code has to make in parts counts as one of one core."""
    own, found = (
        Counter(x.node for x in some) for some in (program.instructions, (i.launch for i in network.launches))
    )
    cores = [1] * len(program.instructions)
    for place, item in zip(counterparts(program, network), network.launches):
        if own[item.launch.node] == found[item.launch.node]:
            cores[place] = len(item.division.parts)
    return tuple(cores)


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
