# SPDX-License-Identifier: BSD-3-Clause
"""The systolic tile of csrc/sim/rtl, verilated: `python -m tools.rtl` builds it and compares it with the ISA engine.

Needs verilator (apt-get install verilator), g++ and make. The libraries are in build/rtl.
"""

from __future__ import annotations

import ctypes
import fcntl
import shutil
import subprocess
import sysconfig
import time
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from torch_atalla import isa
from torch_atalla.driver import c_abi

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "csrc/sim/rtl"
MODULES = ("atalla_float.sv", "element_group.sv", "systolic_tile.sv")  # in the order of use
MISSING = "verilator is missing; apt-get install verilator"


def installed() -> bool:
    """Return whether verilator can be run."""
    return shutil.which("verilator") is not None


@lru_cache
def library(rows: int = 32, columns: int = 32, group: int = 4) -> ctypes.CDLL:
    """Build the tile, unless it is up to date, and load it.

    rows, columns: the size; columns is a multiple of `group`, the columns between two registers. RuntimeError without
    verilator, and for sources that do not compile.
    """
    if not installed():
        raise RuntimeError(MISSING)
    folder = ROOT / f"build/rtl/{rows}x{columns}x{group}"
    target = folder / f"tile{sysconfig.get_config_var('SHLIB_SUFFIX')}"
    sources = [SOURCES / name for name in (*MODULES, "harness.cpp")]
    newest = max(path.stat().st_mtime for path in (*sources, Path(__file__)))
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:  # processes that test in parallel
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.exists() or target.stat().st_mtime < newest:
            _compile(folder, target, {"ROWS": rows, "COLUMNS": columns, "GROUP": group})
    found = ctypes.CDLL(str(target))
    found.tile_open.restype = ctypes.c_void_p
    found.tile_latency.restype = ctypes.c_uint64
    pointer = ctypes.c_void_p
    found.tile_clock.argtypes = [pointer, ctypes.c_int, ctypes.c_int, pointer, pointer, pointer]
    found.tile_push.argtypes = [pointer, pointer]
    found.tile_row.argtypes = [pointer] * 4
    for function in (found.tile_reset, found.tile_close, found.tile_latency):
        function.argtypes = [pointer]
    return found


def _compile(folder: Path, target: Path, parameters: dict[str, int]) -> None:
    verilator = ["verilator", "--cc", "--prefix", "Vtile", "--top-module", "systolic_tile", "-Wall", "-O3"]
    verilator += ["--x-assign", "fast", "--x-initial", "fast", "--Mdir", str(folder)]
    verilator += [f"-G{name}={value}" for name, value in parameters.items()]
    _run([*verilator, *(str(SOURCES / name) for name in MODULES)])
    flags = ["OPT_FAST=-O1", "OPT_SLOW=-O0", "OPT_GLOBAL=-O1", "CXXFLAGS=-fPIC"]
    _run(["make", "-s", "-j2", "-C", str(folder), "-f", "Vtile.mk", *flags, "Vtile__ALL.a"])
    runtime = Path(_run(["verilator", "--getenv", "VERILATOR_ROOT"]).strip()) / "include"
    include = [f"-I{folder}", "-isystem", str(runtime), "-isystem", str(runtime / "vltstd")]
    define = [f"-D{name}={value}" for name, value in parameters.items()]
    command = ["g++", "-std=c++20", "-O1", "-fPIC", "-shared", "-fvisibility=default", *include, *define]
    sources = [SOURCES / "harness.cpp", runtime / "verilated.cpp", runtime / "verilated_threads.cpp"]
    _run([*command, *map(str, sources), str(folder / "Vtile__ALL.a"), "-pthread", "-o", str(target)])


def _run(command: list[str]) -> str:
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{result.stdout}{result.stderr}")
    return result.stdout


class SystolicTile:
    """One tile, just reset. As `array` of `isa.Machine` or `isa.run`, it takes the array's place.

    Vectors are float32 arrays: `rows` lanes, `columns` sums and results.
    """

    def __init__(self, rows: int = 32, columns: int = 32, group: int = 4):
        self._library = library(rows, columns, group)
        self.columns = columns
        self._tile = self._library.tile_open()
        fields: dict[str, Any] = {name: kind for name, kind, *_ in c_abi.atalla_isa_array._fields_}
        self.interface = c_abi.atalla_isa_array(
            struct_size=ctypes.sizeof(c_abi.atalla_isa_array),
            context=self._tile,
            push=ctypes.cast(self._library.tile_push, fields["push"]),
            row=ctypes.cast(self._library.tile_row, fields["row"]),
        )

    def __del__(self) -> None:
        if tile := getattr(self, "_tile", None):
            self._library.tile_close(tile)

    @property
    def latency(self) -> int:
        """Cycles from the issue of the latest `row` to the first cycle in which its result can be used."""
        return self._library.tile_latency(self._tile)

    def clock(self, push: Any = None, row: tuple[Any, Any] | None = None) -> np.ndarray | None:
        """Advance one cycle, in which a push of lanes or a row of (lanes, sums) may be issued.

        Returns the results that are at the output after this cycle, or None.
        """
        lanes, sums = row if row is not None else (push, None)
        results = np.empty(self.columns, np.float32)
        pointers = [None if x is None else x.ctypes.data for x in (lanes, sums, results)]
        valid = self._library.tile_clock(self._tile, push is not None, row is not None, *pointers)
        return results if valid else None

    def push(self, lanes: np.ndarray) -> None:
        """Issue one push, in one cycle."""
        self._library.tile_push(self._tile, lanes.ctypes.data)

    def row(self, lanes: np.ndarray, sums: np.ndarray) -> np.ndarray:
        """Issue one row and wait for its result."""
        results = np.empty(self.columns, np.float32)
        self._library.tile_row(self._tile, lanes.ctypes.data, sums.ctypes.data, results.ctypes.data)
        return results


def main() -> None:
    tile = SystolicTile()
    begin = time.perf_counter()
    program = isa.read_text_image(ROOT / "test/data/gemm_48x64x32.in")
    engine, rtl = isa.run(program), isa.run(program, array=tile)
    seconds = time.perf_counter() - begin
    same = np.array_equal(engine.memory(0xC000, 3072), rtl.memory(0xC000, 3072))
    print(f"gemm_48x64x32: bits {'equal' if same else 'DIFFER'}, {seconds:.2f} s; latency of a row: {tile.latency}")


if __name__ == "__main__":
    main()
