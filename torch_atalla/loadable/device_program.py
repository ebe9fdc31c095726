# SPDX-License-Identifier: BSD-3-Clause
"""A network of Atalla code placed on a device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from torch_atalla.driver.extension import _C
from torch_atalla.isa.engine import Code, Stats, _device_handle, dram_address, launch
from torch_atalla.isa.geometry import LANES, SCRATCHPAD_BYTES

from .file.code_section import CodeSection

Layout = tuple[str, torch.dtype, tuple[int, ...], tuple[int, ...]]  # name, dtype, sizes, strides


def check_geometry(device: torch.device) -> None:
    """Raise RuntimeError unless the chip has the Ax01's geometry, for which tiles and addresses are generated."""
    chip = _C.properties(device.index)
    pads, pad_bytes = chip["scratchpads"], chip["scratchpad_bytes"]
    array = (chip["vector_lanes"], chip["array_rows"], chip["array_columns"])
    if array == (LANES, LANES, LANES) and 2 <= pads <= 4 and pad_bytes >= SCRATCHPAD_BYTES:
        return
    raise RuntimeError(
        f"chip code needs 32 vector lanes, an array of 32 x 32, and 2 to 4 scratchpads of at least {SCRATCHPAD_BYTES} "
        f"bytes; {device} has {array[0]} lanes, an array of {array[1]} x {array[2]} and {pads} scratchpads of "
        f'{pad_bytes} bytes. Choose another chip file, or load with engine="functional"'
    )


class DeviceProgram:
    """Code, constants, temporaries and call table of a network in the device's DRAM. Every run fills in the table."""

    def __init__(
        self, section: CodeSection, inputs: Sequence[Layout], outputs: Sequence[Layout], device: torch.device
    ) -> None:
        check_geometry(device)
        self.device, self.inputs, self.outputs = device, tuple(inputs), tuple(outputs)
        self.stats = Stats()  # of the last run
        self._section = section
        self.code = Code(section.program(), _device_handle(device.index))
        self._constants = torch.frombuffer(bytearray(section.constants), dtype=torch.uint8).to(device)
        self._arena = torch.empty(max(section.arena_bytes, 1), dtype=torch.uint8, device=device)
        self._table = torch.empty(4 * len(section.words), dtype=torch.uint8, device=device)

    def __call__(self, given: Sequence[Any]) -> list[torch.Tensor]:
        """Run the program on its inputs. Raises TypeError or ValueError for inputs that do not match their layouts."""
        tensors = [self._input(layout, tensor) for layout, tensor in zip(self.inputs, given, strict=True)]
        outputs = [torch.empty_strided(s, t, dtype=d, device=self.device) for _, d, s, t in self.outputs]
        memory = [self._table, self._constants, self._arena, *tensors, *outputs]
        table = self._section.table([dram_address(tensor) for tensor in memory])
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
