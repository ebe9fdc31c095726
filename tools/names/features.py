# SPDX-License-Identifier: BSD-3-Clause
"""Features of the product that texts say are missing or present, each with a check of the product itself.

A reason such as "no thermal model" refers to a feature by its name (tools/names/cuda_names.toml). The tests fail when a
feature that a text calls missing has landed.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@lru_cache(maxsize=1)
def parameters() -> tuple[str, ...]:
    """The parameters of the chip: "array.rows"."""
    chip = tomllib.loads((ROOT / "csrc/sim/chip.toml").read_text())
    return tuple(
        f"{section}.{name}" for section, entries in chip.items() if isinstance(entries, dict) for name in entries
    )


def parameter(pattern: str) -> Callable[[], bool]:
    """Whether a parameter of the chip matches."""
    return lambda: any(re.search(pattern, name) for name in parameters())


def text(pattern: str, *paths: str) -> Callable[[], bool]:
    """Whether a file, or a file of a folder, matches. Raises ValueError when a path has no sources."""

    def check() -> bool:
        files = [file for path in paths for file in _files(ROOT / path)]
        return any(re.search(pattern, file.read_text()) for file in files)

    return check


def _files(path: Path) -> list[Path]:
    found = [path] if path.is_file() else [f for f in path.rglob("*") if f.suffix in (".h", ".cpp", ".py")]
    if not found:
        raise ValueError(f"{path}: expected a file, or a folder with sources")
    return found


FEATURES: dict[str, Callable[[], bool]] = {
    # present
    "energy model": parameter(r"^energy\."),
    "network inside a chip": parameter(r"^network\.topology$"),
    "bank-level DRAM": parameter(r"^dram\.preset$"),
    "several cores": parameter(r"^core\.count$"),
    # absent
    "thermal model": parameter(r"thermal|temperature|celsius|kelvin"),
    "sparsity in timing": parameter(r"spars"),
    "cores of a stream": text(r"(?i)stream_(cores|set_cores|partition)|core_mask", "csrc/sim/abi"),
    "pluggable allocators": text(
        r"(change|set)_current_allocator|\balloc_fn", "csrc/runtime", "csrc/aten", "torch_atalla/device"
    ),
    "conditional nodes of graphs": text(
        r"(?i)conditional|if_node", "csrc/runtime/graph", "torch_atalla/device/graphs.py"
    ),
    "threads of a core": parameter(r"thread|warp"),
    "second-level cache": parameter(r"(l2|last_level|shared|unified)_?cache|^cache\."),
    "clock of the memory": parameter(r"^dram\.\w*(clock|hz|rate)"),
    "identity of a device": text(r"(?i)\buuid", "csrc/sim/abi", "csrc/sim/chip.toml"),
    "calls that wait for initialisation": text(r"_queued_calls", "torch_atalla/device"),
}
