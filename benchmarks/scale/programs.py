# SPDX-License-Identifier: BSD-3-Clause
"""Costs of saving, compiling and loading programs."""

from __future__ import annotations

import os
import tempfile
import time
from functools import cache
from pathlib import Path

import torch
from torch import nn

import torch_atalla

from .sweep import Sweep, least

MIB = 2**20


class Chain(nn.Module):
    """So many ops, of which each reads the result of the one before; every tenth is a matrix product."""

    def __init__(self, nodes: int) -> None:
        super().__init__()
        self.nodes = nodes
        self.weight = nn.Parameter(torch.eye(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for i in range(self.nodes):
            x = x @ self.weight if i % 10 == 9 else x * 1.5 if i % 2 else x + 0.5
        return x


@cache
def exported(nodes: int) -> torch.export.ExportedProgram:
    return torch.export.export(Chain(nodes), (torch.ones(8, 8),))


def save(nodes: int) -> float:
    """Of save_loadable without torch.export."""
    program = exported(nodes)
    with tempfile.TemporaryDirectory() as folder:
        return least(lambda: torch_atalla.save_loadable(program, Path(folder, "chain.atl")), runs=1)


def export(nodes: int) -> float:
    """Of torch.export alone, for comparison."""
    exported.cache_clear()
    return least(lambda: exported(nodes), runs=1)


def compile_(nodes: int) -> float:
    """Of the first call of a compiled module, Dynamo and AOTAutograd included, with empty caches."""
    torch.compiler.reset()
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
        module = torch.compile(Chain(nodes).to("atalla"), fullgraph=True)
        x = torch.ones(8, 8, device="atalla")
        cost = least(lambda: module(x), runs=1)
    os.environ.pop("TORCHINDUCTOR_CACHE_DIR")
    return cost


class Table(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.rows = nn.Parameter(torch.empty(size // 4096, 1024).fill_(0.5), requires_grad=False)

    def forward(self, i: torch.Tensor) -> torch.Tensor:
        return self.rows[i]


def load(size: int) -> float:
    """Of loading weights of so many bytes: from a file in the page cache to DRAM, checksums compared."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "table.atl")
        torch_atalla.save_loadable(torch.export.export(Table(size), (torch.tensor([0]),)), path)
        best = float("inf")
        for _ in range(3):
            start = time.perf_counter()
            program = torch_atalla.load_loadable(path, device="atalla")
            best = min(best, time.perf_counter() - start)
            assert program(torch.tensor([1], device="atalla"))[0, 0].item() == 0.5
            del program
    return best


SWEEPS = (
    Sweep(
        "torch.export of n nodes",
        (10, 100, 1000, 5000, 20_000),
        export,
        "This is PyTorch's tracer, which no backend changes.",
    ),
    Sweep(
        "`save_loadable` of n nodes, after torch.export",
        (10, 100, 1000, 5000, 20_000),
        save,
        "Each pass visits each node once; PyTorch's decomposition of the program takes most of it.",
    ),
    Sweep(
        "`torch.compile` of n nodes, with the first call",
        (10, 100, 1000, 5000, 20_000),
        compile_,
        "Dynamo and AOTAutograd trace each node; the passes of the backend follow.",
    ),
    Sweep(
        "loading a loadable of n bytes",
        (1 * MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB, 1024 * MIB, 3072 * MIB),
        load,
        "The host's memory bounds it: the bytes are read, compared with their checksum and written once.",
    ),
)
