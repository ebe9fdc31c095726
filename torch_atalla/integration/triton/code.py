# SPDX-License-Identifier: BSD-3-Clause
"""Launches of Triton kernels as Atalla code: under `torch_atalla.chip.engine("isa")`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from ...compiler.tile.ir import TileError
from ...compiler.tile.launch import number_bits
from ...driver.isa_library import library
from ...isa.engine import Code, Machine, Stats, dram_address, launch
from ...isa.profile import issue_clock


@dataclasses.dataclass
class LoadedCode:
    """The code of a kernel, made from its TTIR at the first launch."""

    ttir: str
    decoded: dict[int, Code] = dataclasses.field(default_factory=dict)  # by device

    def runs(self, grid: Sequence[int], kinds: Sequence[str], arguments: Sequence[Any], device: torch.device) -> bool:
        """Whether the launch ran as Atalla code, which it does if that engine is selected. Raises NoProgramError."""
        if not _get_current_dispatch_mode_stack():
            return False
        from ...compiler.targets.chip.eager import active_mode
        from ...compiler.targets.chip.network import NoProgramError
        from ...compiler.targets.chip.tile_code import code_of

        mode = active_mode()
        if mode is None:
            return False
        code = code_of(self.ttir)
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
        words = [_word(kind, argument) for kind, argument in zip(kinds, arguments, strict=True)]
        memories = [x.untyped_storage()._cdata if isinstance(x, torch.Tensor) else None for x in arguments]
        arena = torch.empty(max(code.arena_bytes, 1), dtype=torch.uint8, device=device)
        table = torch.empty(3 + len(code.parameters), dtype=torch.int32, device=device)
        place = dram_address(table)
        filled = code.table(grid, words, memories, dram_address(arena), place)
        table.copy_(torch.tensor(filled, dtype=torch.int64).to(torch.int32))
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
