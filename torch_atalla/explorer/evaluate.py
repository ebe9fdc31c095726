# SPDX-License-Identifier: BSD-3-Clause
"""One variant: its networks compiled for it, and run on it by `atalla-run`, in a process of its own each."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

import torch

from torch_atalla.compiler.schedule import chip_model
from torch_atalla.driver.paths import BINARIES
from torch_atalla.energy import area_of_chip
from torch_atalla.isa.engine import ExecutionError
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
        try:
            area = sum(area_of_chip(text).values())
        except ValueError as error:
            raise VariantError(str(error)) from None
        chip, clock = chip_model(text), tomllib.loads(text)["chip"]["clock_hz"]["value"]
        found = {}
        for network in networks:
            path = Path(folder) / "network.atl"
            try:
                path.write_bytes(network.file(chip, variant.options()))
            except ExecutionError as error:  # its code was tried on the chip
                raise VariantError(f"{network.name}: {error}") from None
            numbers = _run(network, path, chip_file)
            found[network.name] = numbers | {"seconds": numbers["cycles"] / clock, "area": area}
        return found


def _run(network: Network, path: Path, chip_file: Path) -> dict[str, float]:
    example = network.example()
    description = describe(str(path))
    inputs, outputs = port_layouts(description, 0)
    given = example[0] if example else [_filler(dtype, sizes) for _, dtype, sizes, _ in inputs]
    command = [str(BINARIES / "atalla-run"), str(path)]
    for number, tensor in enumerate(given):
        file = path.with_name(f"input{number}")
        file.write_bytes(_bytes(tensor.to(inputs[number][1])))  # of a network with code, in bfloat16
        command += ["--input", str(file)]
    results = [path.with_name(f"output{number}") for number in range(len(outputs))]
    command += [part for file in results for part in ("--output", str(file))]
    environment = os.environ | {"ATALLA_CHIP_CONFIG": str(chip_file), "ATALLA_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    taken = re.search(r"instructions, (\d+) cycles, (\S+) J", done.stdout)
    if done.returncode or taken is None:
        raise VariantError(f"{network.name}: {done.stderr.strip()}")
    found = {"cycles": float(taken[1]), "joules": float(taken[2])}
    if example:
        pairs = zip(results, outputs, example[1], strict=True)
        found["error"] = max((_error(file, dtype, right) for file, (_, dtype, *_), right in pairs), default=0.0)
    return found


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
