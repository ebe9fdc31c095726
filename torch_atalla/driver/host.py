# SPDX-License-Identifier: BSD-3-Clause
"""Instruction sets of the host for which kernels are compiled. Imports nothing: tools/build.py reads this file too."""

from __future__ import annotations

from pathlib import Path

# Instruction set, narrowest first -> flags of /proc/cpuinfo that its kernels need.
REQUIRED_FLAGS = {
    "baseline": frozenset({"sse4_2", "ssse3", "popcnt"}),
    "avx2": frozenset({"avx2", "fma", "f16c", "bmi2"}),
    "avx512": frozenset({"avx512f", "avx512bw", "avx512dq", "avx512vl"}),
}


def supported(cpuinfo: str | None = None) -> list[str]:
    """Return the instruction sets that the host has, narrowest first.

    Args:
        cpuinfo: text in the format of /proc/cpuinfo (default: that file, or nothing where it does not exist).
    """
    path = Path("/proc/cpuinfo")
    if cpuinfo is None:
        cpuinfo = path.read_text() if path.exists() else ""
    flags = frozenset(cpuinfo.split())
    return [name for name, required in REQUIRED_FLAGS.items() if required <= flags]
