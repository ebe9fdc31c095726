# SPDX-License-Identifier: BSD-3-Clause
"""The chips of tools.clock_networks: named ones, and random ones for the order of pairs."""

from __future__ import annotations

import random
from typing import Any

Values = dict[str, Any]  # "section.name" of the chip file -> value

CONSTANT = "constant DRAM"
FOUR: Values = {"core.count": 4}
OWN: Values = FOUR | {"core.scratchpads": "own"}
MESH: Values = {"network.topology": "mesh", "network.columns": 2}
CROSSBAR: Values = {"network.topology": "crossbar"}
NAMED: dict[str, Values] = {
    CONSTANT: {},
    "ddr4_3200": {"dram.preset": "ddr4_3200"},
    "lpddr4_3200": {"dram.preset": "lpddr4_3200"},
    "lpddr5_6400": {"dram.preset": "lpddr5_6400"},
    "hbm2_2000": {"dram.preset": "hbm2_2000"},
    "4 cores, shared scratchpads": FOUR,
    "4 cores, own scratchpads, bus": OWN,
    "4 cores, own scratchpads, crossbar": OWN | CROSSBAR,
    "4 cores, own scratchpads, mesh": OWN | MESH,
    "array of 64": {"array.rows": 64, "array.columns": 64, "array.latency_cycles": 85},
}

_CHOICES: dict[str, list[Any]] = {
    "dram.preset": ["constant", "ddr4_3200", "lpddr4_3200", "lpddr5_6400", "hbm2_2000"],
    "array.rows": [32, 64],
    "core.count": [1, 2, 4],
    "core.scratchpads": ["shared", "own"],
    "network.topology": ["bus", "crossbar", "mesh"],
    "sdma.queue_depth": [4, 8, 64],
    "sdma.setup_cycles": [4, 8, 32],
    "scratchpad.ports": [1, 2, 3],
    "instruction_cache.bytes": [0, 131_072],
    "vector.occupancy_cycles": [1, 2, 4],
}


def drawn(count: int, seed: int) -> dict[str, Values]:
    """So many random chips, by names that tell their values."""
    draw, found = random.Random(seed), dict[str, Values]()
    while len(found) < count:
        values = {name: draw.choice(choices) for name, choices in _CHOICES.items()}
        name = ", ".join(f"{name}={value}" for name, value in values.items())
        if values["array.rows"] == 64:
            values |= {"array.columns": 64, "array.latency_cycles": 85}
        found[name] = values
    return found
