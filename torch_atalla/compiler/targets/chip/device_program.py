# SPDX-License-Identifier: BSD-3-Clause
"""An eager op as Atalla code, placed on a device. The driver runs the code of files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from torch_atalla.driver import runtime
from torch_atalla.isa.engine import Code, Stats, _device_handle, dram_address, launch
from torch_atalla.loadable.code import Layout
from torch_atalla.loadable.file.code_section import CodeSection
from torch_atalla.loadable.file.format import Region


class DeviceProgram:
    """Code, constants, temporaries and call table of a network in the device's DRAM. Every run fills in the table."""

    def __init__(
        self, section: CodeSection, inputs: Sequence[Layout], outputs: Sequence[Layout], device: torch.device
    ) -> None:
        runtime.check_runs_code(device.index)
        self.device, self.inputs, self.outputs = device, tuple(inputs), tuple(outputs)
        self.stats = Stats()  # of the last run
        (self._method,) = section.methods
        self.code = Code(self._method.program(), _device_handle(device.index))
        self._constants = torch.frombuffer(bytearray(section.constants), dtype=torch.uint8).to(device)
        self._arena = torch.empty(max(self._method.arena_bytes, 1), dtype=torch.uint8, device=device)
        self._table = torch.empty(4 * len(self._method.words), dtype=torch.uint8, device=device)

    def __call__(self, given: Sequence[Any]) -> list[torch.Tensor]:
        """Run the program on its inputs. Raises TypeError or ValueError for inputs that do not match their layouts."""
        tensors = [self._input(layout, tensor) for layout, tensor in zip(self.inputs, given, strict=True)]
        outputs = [torch.empty_strided(s, t, dtype=d, device=self.device) for _, d, s, t in self.outputs]
        memory = {Region.TABLE: [self._table], Region.CONSTANTS: [self._constants], Region.ARENA: [self._arena]}
        memory |= {Region.INPUT: tensors, Region.OUTPUT: outputs}
        table = self._method.table(lambda region, index: dram_address(memory[region][index]))
        self._table.copy_(torch.frombuffer(bytearray(table), dtype=torch.uint8))
        self.stats = launch(self.code, args=(dram_address(self._table),), device=self.device.index)
        return outputs

    def _input(self, layout: Layout, tensor: Any) -> torch.Tensor:
        name, dtype, sizes, strides = layout
        if not isinstance(tensor, torch.Tensor):
            raise TypeError(f"input {name}: expected a tensor, found {type(tensor).__name__}")
        if tensor.device != self.device or tensor.dtype != dtype or tuple(tensor.shape) != sizes:
            raise ValueError(
                f"input {name}: expected {dtype} of {list(sizes)} on {self.device}, found {tensor.dtype} of "
                f"{list(tensor.shape)} on {tensor.device}"
            )
        if tensor.stride() == strides:
            return tensor
        return torch.empty_strided(sizes, strides, dtype=dtype, device=self.device).copy_(tensor)
