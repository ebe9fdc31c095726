# SPDX-License-Identifier: BSD-3-Clause
"""An eager op as Atalla code on a device: a file in memory that holds only code, run by the driver."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from torch_atalla.driver import runtime
from torch_atalla.driver.dtypes import CODES
from torch_atalla.driver.extension import _C
from torch_atalla.isa.engine import Stats, stats_of
from torch_atalla.loadable.code import Layout
from torch_atalla.loadable.file.code_file import PortType, code_file
from torch_atalla.loadable.file.code_section import CodeSection
from torch_atalla.loadable.lazy_bits import resolved


class DeviceProgram:
    """Call it with tensors of the inputs' layouts; it gives a list of outputs."""

    def __init__(
        self, section: CodeSection, inputs: Sequence[Layout], outputs: Sequence[Layout], device: torch.device
    ) -> None:
        file = code_file(_port_types(inputs), _port_types(outputs), section, runtime.crc32c)
        self._program = runtime.Program(file)
        self._program.load(device.index, "isa")
        self._bound = _C.BoundMethod(self._program.handle, 0, device.index, _bound(inputs), _bound(outputs))

    def __call__(self, given: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        outputs = self._bound(*map(resolved, given))
        if isinstance(outputs, int):
            self._program._check_call(outputs)
        assert isinstance(outputs, list)  # the layouts are the cache's key: they fit
        return outputs

    @property
    def stats(self) -> Stats:
        """Statistics of the last run."""
        return stats_of(self._program.code_stats())


def _port_types(layouts: Sequence[Layout]) -> list[PortType]:
    return [(CODES[dtype], dtype.itemsize, sizes, strides) for _, dtype, sizes, strides in layouts]


def _bound(layouts: Sequence[Layout]) -> list[tuple]:
    return [(CODES[dtype], list(sizes), list(strides), [False] * len(sizes)) for _, dtype, sizes, strides in layouts]
