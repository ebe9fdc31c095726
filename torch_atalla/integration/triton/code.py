# SPDX-License-Identifier: BSD-3-Clause
"""Launches of Triton kernels as Atalla code: under `torch_atalla.chip.engine("isa")`."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from ...compiler.tile.ir import TileError
from ...compiler.tile.launch import number_bits
from ...compiler.tile.ttir import parse
from ...driver.isa_library import library
from ...isa.engine import Code, Machine, Stats, dram_address, launch
from ...isa.profile import issue_clock


@dataclasses.dataclass
class LoadedCode:
    """The code of a kernel, made from its TTIR at the first launch."""

    ttir: str
    decoded: dict[int, Code] = dataclasses.field(default_factory=dict)  # by device

    @functools.cached_property
    def code(self) -> Any:
        """A TileCode, or the TileError that says why there is none."""
        from ...compiler.targets.chip.tile_code import generate  # imported lazily: only this engine needs it

        try:
            return generate(parse(self.ttir))
        except TileError as error:
            return error

    def runs(self, grid: Sequence[int], kinds: Sequence[str], arguments: Sequence[Any], device: torch.device) -> bool:
        """Whether the launch ran as Atalla code, which it does if that engine is selected. Raises NoProgramError."""
        if not _get_current_dispatch_mode_stack():
            return False
        from ...compiler.targets.chip.eager import active_mode
        from ...compiler.targets.chip.network import NoProgramError

        mode = active_mode()
        if mode is None:
            return False
        code = self.code
        if isinstance(code, TileError):
            if mode.missing == "functional":
                return False
            where = f"{code.location}: " if code.location is not None else ""
            raise NoProgramError(f"{where}{code.message}")
        mode.stats = self.launch(code, grid, kinds, arguments, device, mode.lines)
        mode.ops[code.name] = mode.ops.get(code.name, 0) + 1
        return True

    def launch(
        self,
        code: Any,
        grid: Sequence[int],
        kinds: Sequence[str],
        arguments: Sequence[Any],
        device: torch.device,
        lines: dict[int, tuple[int, int]] | None,
    ) -> Stats:
        from ...compiler.targets.chip.tile_code import APART, ARENA, GRID

        words = dict(zip(GRID, grid, strict=True))
        for i, (kind, argument) in enumerate(zip(kinds, arguments, strict=True)):
            bits = _word(kind, argument)
            words[f"a{i}"], words[f"a{i}_high"] = bits & 0xFFFFFFFF, bits >> 32
        arena = torch.empty(max(code.arena_bytes, 1), dtype=torch.uint8, device=device)
        words[ARENA] = dram_address(arena)
        words[APART] = _is_apart(code.written, arguments)
        table = torch.empty(3 + len(code.parameters), dtype=torch.int32, device=device)
        place = dram_address(table)
        table.copy_(torch.tensor([_signed(word) for word in code.table(words, place)], dtype=torch.int32))
        if device.index not in self.decoded:
            self.decoded[device.index] = Code(code.program, library().device(device.index)[0])
        if lines is not None:
            return _by_line(Machine(self.decoded[device.index], args=(place,), device=device.index), code, lines)
        return launch(self.decoded[device.index], args=(place,), device=device.index)


def _word(kind: str, argument: Any) -> int:
    """An address as the program sees it, or a number; floats as those of FP32."""
    if isinstance(argument, torch.Tensor):
        return dram_address(argument)
    if kind.startswith("*"):
        if argument:
            raise ValueError(f"expected a tensor as an argument of {kind}, got the address {argument:#x}")
        return 0
    return number_bits("fp32" if kind in ("bf16", "fp16") else kind, argument)


def _signed(word: int) -> int:
    return (word & 0xFFFFFFFF) - ((word & 0x80000000) << 1)


def _is_apart(written: set[int] | None, arguments: Sequence[Any]) -> bool:
    """Whether no tensor that the kernel writes shares its memory with another argument."""
    tensors = {i: x.untyped_storage()._cdata for i, x in enumerate(arguments) if isinstance(x, torch.Tensor)}
    return written is not None and all(
        tensors[i] != other for i in written & tensors.keys() for j, other in tensors.items() if j != i
    )


def _by_line(machine: Machine, code: Any, lines: dict[int, tuple[int, int]]) -> Stats:
    """Runs to the end, and adds packets and cycles to their lines. Cycles of waiting count where the wait ends."""
    torch.accelerator.synchronize()
    before = stats = machine.stats()
    while machine.stop != "halted":
        line = code.line_of(machine.pc)
        machine.step()
        stats = machine.stats()
        packets, cycles = lines.get(line, (0, 0))
        lines[line] = packets + stats.packets - before.packets, cycles + issue_clock(stats) - issue_clock(before)
        before = stats
    packets, cycles = lines.get(0, (0, 0))
    lines[0] = packets, cycles + stats.cycles - issue_clock(stats)
    return stats
