# SPDX-License-Identifier: BSD-3-Clause
"""Runs SCALE-Sim 3 on layers, in an environment of its own: it needs a NumPy that the package does not support.

Reads {"chip": {...}, "layers": [...]} as JSON from the standard input. Each layer is [rows and columns of the image,
rows and columns of the filter, channels, filters, stride]; a product of m x k and k x n is an image of m x k and n
filters of 1 x k. Writes one line of JSON per layer: cycles, and accesses to DRAM in elements.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from scalesim.layout_utils import layouts
from scalesim.scale_config import scale_config
from scalesim.single_layer_sim import single_layer_sim
from scalesim.topology_utils import topologies


def simulate(chip: dict[str, int], layer: list[int]) -> dict[str, Any]:
    config = scale_config()
    sizes = [chip[name] // 1024 for name in ("image_elements", "filter_elements", "result_elements")]
    offsets = [0, 1 << 28, 1 << 29]  # addresses of the operands; they must not overlap
    # CALC: SCALE-Sim states the bandwidth that a run without stalls needs. USER would add stalls of its own bus model.
    config.update_from_list(["layer", chip["rows"], chip["columns"], *sizes, *offsets, "ws", "CALC", []])
    topology = topologies()
    *image_and_filter, stride = layer
    topology.load_layer_params_from_list("layer", ["layer", *image_and_filter, stride, stride, 1, 1])  # 1:1: dense
    topology.topo_calc_hyperparams()
    run = single_layer_sim()
    run.set_params(0, config, topology, layouts(), verbose=False)
    run.run()
    _, cycles, stalls, utilisation, *_ = run.get_compute_report_items()
    detail = run.get_detail_report_items()  # start, stop, accesses: SRAM image, filter, result, DRAM the same
    return {
        "cycles": int(cycles) + 1 - int(stalls),  # SCALE-Sim gives the number of the last cycle, from 0
        "utilisation": utilisation / 100,
        "image": int(detail[11]),
        "filter": int(detail[14]),
        "result": int(detail[17]),
    }


def main() -> None:
    request = json.load(sys.stdin)
    for layer in request["layers"]:
        print(json.dumps(simulate(request["chip"], layer)), flush=True)


if __name__ == "__main__":
    main()
