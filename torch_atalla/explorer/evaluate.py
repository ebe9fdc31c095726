# SPDX-License-Identifier: BSD-3-Clause
"""One variant: its networks compiled for it, and run on it by `atalla-run`, in a process of its own each."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from torch_atalla.compiler.schedule import chip_model
from torch_atalla.driver import c_abi
from torch_atalla.driver.libraries import device_library_path
from torch_atalla.driver.paths import BINARIES
from torch_atalla.energy import EnergyModel, macs_of
from torch_atalla.loadable.code import port_layouts
from torch_atalla.loadable.description import describe

from .networks import Network
from .space import Variant


class VariantError(ValueError):
    """A chip that the simulator refuses, or that cannot run a network."""


def evaluate(networks: Sequence[Network], default: str, variant: Variant) -> dict[str, dict[str, float]]:
    """What a variant takes: for each network "cycles", "seconds" of simulated time, "joules", the chip's "area" in mm2,
    and, but for loadables, "error", the largest difference from the CPU's results relative to their largest element.

    default: the text of the chip file that the variant changes. Raises VariantError, with the simulator's reason.
    """
    text = variant.chip_text(default)
    with tempfile.TemporaryDirectory(prefix="atalla_explore") as folder:
        chip_file = Path(folder) / "chip.toml"
        chip_file.write_text(text)
        config, probed = tomllib.loads(text), _probe(chip_file)
        chip, prices = chip_model(text), EnergyModel(config, probed)
        clock, area = prices.value("chip", "clock_hz"), sum(prices.area().values())
        found = {}
        for network in networks:
            path = Path(folder) / "network.atl"
            path.write_bytes(network.file(chip, variant.options()))
            numbers = _run(network, path, chip_file, prices)
            found[network.name] = numbers | {"seconds": numbers["cycles"] / clock, "area": area}
        return found


def _probe(chip_file: Path) -> dict[str, Any]:
    """The energy of the chip's memory. Opening the chip also checks the file."""
    probe = Path(__file__).with_name("probe.py")
    command = [sys.executable, "-I", str(probe), c_abi.__file__, device_library_path(), str(chip_file)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise VariantError(done.stderr.strip().replace(str(chip_file), "chip file"))
    return json.loads(done.stdout)


def _run(network: Network, path: Path, chip_file: Path, prices: EnergyModel) -> dict[str, float]:
    example = network.example()
    description = describe(str(path))
    inputs, outputs = port_layouts(description, 0)
    given = example[0] if example else [_filler(dtype, sizes) for _, dtype, sizes, _ in inputs]
    command = [str(BINARIES / "atalla-run"), str(path)]
    for number, tensor in enumerate(given):
        file = path.with_name(f"input{number}")
        file.write_bytes(_bytes(tensor))
        command += ["--input", str(file)]
    results = [path.with_name(f"output{number}") for number in range(len(outputs))]
    command += [part for file in results for part in ("--output", str(file))]
    trace = path.with_name("trace.json")
    command += ["--trace", str(trace)]
    environment = os.environ | {"ATALLA_CHIP_CONFIG": str(chip_file), "ATALLA_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    cycles = re.search(r"instructions, (\d+) cycles", done.stdout)
    if done.returncode or cycles is None:
        raise VariantError(f"{network.name}: {done.stderr.strip()}")
    found = {"cycles": float(cycles[1]), "joules": _joules(trace, int(cycles[1]), prices)}
    if example:
        pairs = zip(results, outputs, example[1], strict=True)
        found["error"] = max((_error(file, dtype, right) for file, (_, dtype, *_), right in pairs), default=0.0)
    return found


def _joules(trace: Path, cycles: int, prices: EnergyModel) -> float:
    """Of the launches of a run that took so many cycles. Copies of inputs and outputs are not part of it."""
    spent = prices.over(cycles)
    for event in json.loads(trace.read_text())["traceEvents"]:
        if event["name"] != "copy":
            work = event["args"]
            spent += prices.launched(
                work["dram_bytes_read"],
                work["dram_bytes_written"],
                work["vector_cycles"],
                work["array_cycles"],
                macs_of(work["dtype"], work["macs"]),
            )
    return spent.joules


def _filler(dtype: torch.dtype, sizes: Sequence[int]) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    if not dtype.is_floating_point:
        return torch.zeros(tuple(sizes), dtype=dtype)
    return torch.randn(tuple(sizes), generator=generator).to(dtype)


def _bytes(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


def _error(file: Path, dtype: torch.dtype, right: torch.Tensor) -> float:
    data = file.read_bytes()
    if not right.numel():
        return 0.0
    found = torch.frombuffer(bytearray(data), dtype=dtype).reshape(right.shape).double()
    expected = right.double()
    return float((found - expected).abs().max() / expected.abs().max().clamp(min=1e-30))
