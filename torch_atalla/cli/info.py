# SPDX-License-Identifier: BSD-3-Clause
"""`python -m torch_atalla info [--json]`: installed versions, build flags and devices."""

from __future__ import annotations

import argparse
import json
import os
import platform
from typing import Any

import torch

from torch_atalla import chip, energy, ops
from torch_atalla.device import namespace as device
from torch_atalla.driver import runtime
from torch_atalla.driver.installation import build_info
from torch_atalla.version import __version__

# Environment variable that the package reads at run time -> its default, as shown.
SETTINGS = {
    "TORCH_ATALLA_FALLBACK": "warn",
    "ATALLA_DEVICE_COUNT": "the chip configuration's",
    "ATALLA_DRAM_BYTES": "the chip configuration's",
    "ATALLA_CHIP_CONFIG": "the built-in chip.toml",
    "ATALLA_CLOCK": "code",
    "ATALLA_NUM_THREADS": "all cores",
    "ATALLA_ISA": "the best there is",
    "ATALLA_LAPACK": "PyTorch's library",
    "ATALLA_DEVICE_LIBRARY": "the simulator",
    "TORCH_ATALLA_ALLOC_CONF": "none",
    "ATALLA_LAUNCH": "short launches inline, the rest queued",
    "TORCH_ATALLA_BLOCKING_WAIT": "0",
    "TORCH_ATALLA_CACHE_LIMIT": "1 GiB",
}  # fmt: skip


def versions() -> dict[str, Any]:
    library = runtime.device_library()
    return {
        "torch_atalla": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {' '.join(platform.libc_ver())}",
        "device_library": library.path,
        "device_abi": f"{library.abi[0]}.{library.abi[1]}",
        "host_kernels": library.host_isa,
    }


def describe_device(index: int) -> dict[str, Any]:
    """Return the properties and memory of a device. Opens the device."""
    free, total = device.mem_get_info(index)
    return {
        **device.get_device_properties(index).to_dict(),
        "area_mm2": {unit: round(size, 3) for unit, size in _area(index).items()},
        "memory": {
            "total": total,
            "free": free,
            "reserved": device.memory_reserved(index),
            "allocated": device.memory_allocated(index),
            "max_reserved": device.max_memory_reserved(index),
            "max_allocated": device.max_memory_allocated(index),
        },
    }


def _area(index: int) -> dict[str, float]:
    try:
        return energy.area(index)
    except RuntimeError:  # another device library
        return {}


def collect() -> dict[str, Any]:
    """Collect everything that the command prints. Memory is in bytes."""
    count = device.device_count()
    return {
        "versions": versions(),
        "build": build_info(),
        "devices": [describe_device(i) for i in range(count)],
        "host_memory": dict(device.host_memory_stats()) if hasattr(device, "host_memory_stats") else {},
        "chip": chip.config(0) if count else {},
        "threads": chip.get_num_threads(),
        "kernels": len(chip.kernels()),
        "op_families": len(ops.families()),
        "op_overloads": len(ops.support()),
        "environment": {name: os.environ.get(name) for name in SETTINGS},
    }


def _mib(size: int) -> str:
    return f"{size / 2**20:,.1f} MiB"


def _title(text: str) -> list[str]:
    return ["", text]


def _chip_lines(config: dict[str, Any]) -> list[str]:
    lines = []
    for section, parameters in config.items():
        if not isinstance(parameters, dict):
            continue
        for name, parameter in parameters.items():
            value = f"{parameter['value']} {parameter['unit']}".strip()
            lines.append(f"  {section + '.' + name:28} {value:32} {parameter['source']}")
    return lines


def text(found: dict[str, Any]) -> str:
    """Format the result of `collect` as text."""
    version, made = found["versions"], found["build"]
    lines = [
        f"torch_atalla {version['torch_atalla']} on torch {version['torch']}, Python {version['python']}, "
        f"{version['machine']}",
        f"device library: {version['device_library']}, ABI {version['device_abi']}"
        + (f", host kernels: {version['host_kernels']}" if version["host_kernels"] else ""),
    ]
    if made:
        lines.append(
            f"built by {made['compiler']}, configuration {made['config']}, host kernels {', '.join(made['isas'])}"
        )
        lines.append(f"  flags: {made['flags']}; extension: {made['extension_flags']}")
    lines += _title(f"devices: {len(found['devices'])}")
    for d in found["devices"]:
        memory = d["memory"]
        lines += [
            f"  atalla:{d['ordinal']}  {d['name']}, {d['clock_hz'] / 1e6:g} MHz, {d['array_rows']} x "
            f"{d['array_columns']} array, {d['vector_lanes']} lanes, {d['scratchpads']} x "
            f"{d['scratchpad_bytes'] // 2**10} KiB scratchpad",
            f"            DRAM {_mib(memory['total'])}: {_mib(memory['free'])} free, {_mib(memory['reserved'])} "
            f"reserved, {_mib(memory['allocated'])} allocated",
        ]
        if d["area_mm2"]:
            parts = ", ".join(f"{unit} {size:.2f}" for unit, size in d["area_mm2"].items())
            lines.append(f"            area {sum(d['area_mm2'].values()):.1f} mm2: {parts}")
    pinned = found["host_memory"]
    if pinned:
        lines.append(
            f"  pinned host memory: {_mib(pinned.get('allocated_bytes.current', 0))} reserved, "
            f"{_mib(pinned.get('active_bytes.current', 0))} in use"
        )
    lines += _title("software")
    lines += [
        f"  host threads of the functional engine: {found['threads']}",
        f"  kernels: {found['kernels']}; native op families: {found['op_families']}, "
        f"overloads: {found['op_overloads']}",
    ]
    lines += _title("environment")
    for name, value in found["environment"].items():
        lines.append(f"  {name:28} {value if value is not None else f'not set ({SETTINGS[name]})'}")
    lines += _title("chip configuration (value, source)")
    return "\n".join(lines + _chip_lines(found["chip"]))


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m torch_atalla info", description="Print devices and versions.")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    args = parser.parse_args(argv)
    found = collect()
    print(json.dumps(found, indent=1, default=str) if args.json else text(found))
    return 0
