# SPDX-License-Identifier: BSD-3-Clause
"""Both ways into a program, a loadable and torch.compile, for one graph: which launches and cycles each has.

A compiled function reads its weights at each call, and a loadable keeps them. So the graph has them as arguments here,
and copies its results, which a loadable writes into memory of its own.
"""

from __future__ import annotations

import difflib
import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.utils._pytree import tree_map_only

import torch_atalla
from torch_atalla.telemetry import Recording
from torch_atalla.testing import tensors

from .comparison import on_device


class Launches(NamedTuple):
    strides: list[tuple[int, ...]]  # of the results
    work: list[tuple[str, tuple[int, ...], int]]  # kernel, shape, cycles; sorted, as independent nodes have no order

    @property
    def cycles(self) -> int:
        return sum(cycles for *_, cycles in self.work)


class Free(nn.Module):
    """A module whose parameters and buffers are arguments."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.call = (module,)  # not a submodule

    def forward(self, state: dict[str, torch.Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return tree_map_only(torch.Tensor, torch.clone, torch.func.functional_call(self.call[0], state, args, kwargs))


@torch.no_grad()
def both(
    module: nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    export: Callable[..., torch.export.ExportedProgram],
) -> tuple[Launches, Launches]:
    """The launches of the loadable, and those of the compiled function, of a module on the CPU. Raises ExportError, or
    BackendCompilerFailed, for what they do not take."""
    state = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    # On the device: some meta functions give other strides on the CPU.
    given = on_device((state, tuple(args), dict(kwargs)))
    program = export(Free(module), given)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.atl"
        torch_atalla.save_loadable(program, path, fallback="error", golden=False)
        loaded = torch_atalla.load_loadable(path)
    torch._dynamo.reset()
    same = program.module(check_guards=False)
    compiled = torch.compile(same, backend="atalla", fullgraph=True, options={"fallback": "error"})
    return _launches(loaded, given), _launches(compiled, given)


def _launches(call: Callable[..., Any], given: tuple[Any, ...]) -> Launches:
    call(*given)  # what is compiled once
    with Recording() as recording:
        results = call(*given)
    strides = [x.stride() for x in tensors(results)]
    work = [w for device in recording.devices for w in device.work if w.kind == "launch"]
    return Launches(strides, sorted((w.kernel, _shape(w.kernel, w.shape), w.cycles) for w in work))


def _shape(kernel: str, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """All rows of a product as if they were in one: AOTAutograd knows of no weight whether it is a parameter, and gives
    linear layers of strided inputs a batch of products, which take the same cycles."""
    return (math.prod(sizes[:-1]), sizes[-1]) if kernel.startswith("gemm") and sizes else sizes


def differences(found: Launches, expected: Launches) -> list[str]:
    """Launches of one that the other does not have, with - and +."""
    a, b = ([f"{name}{list(shape)} {cycles}" for name, shape, cycles in one.work] for one in (found, expected))
    return [line for line in difflib.unified_diff(a, b, lineterm="", n=0) if line[:2] not in ("--", "++", "@@")]
