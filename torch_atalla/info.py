# SPDX-License-Identifier: BSD-3-Clause
"""`python -m torch_atalla info`."""

from __future__ import annotations

import torch

import torch_atalla

from . import chip, device, ops


def main() -> None:
    print(f"torch_atalla {torch_atalla.__version__} on torch {torch.__version__}")
    print(f"devices: {device.device_count()}")
    for index in range(device.device_count()):
        p = device.get_device_properties(index)
        free, total = device.mem_get_info(index)
        memory = f"{total / 2**20:.0f} MiB DRAM ({free / 2**20:.0f} free)"
        scratch = f"{p.scratchpads} x {p.scratchpad_bytes / 2**10:.0f} KiB scratchpad"
        units = f"{p.array_rows} x {p.array_columns} array, {p.vector_lanes} lanes, {p.clock_hz / 1e6:.0f} MHz"
        print(f"  atalla:{index}  {p.name}  {memory}, {scratch}, {units}")
    print(f"host threads of the functional engine: {chip.get_num_threads()}")
    print(f"kernels: {len(chip.kernels())}; native op families: {len(ops.families())}")
    print("chip configuration:")
    print("\n".join("  " + line for line in chip.config_text(0).splitlines()))
