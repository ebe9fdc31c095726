# SPDX-License-Identifier: BSD-3-Clause
"""A region of a graph, compiled and loaded on the device."""

from __future__ import annotations

from typing import Any

import torch

from torch_atalla.compiler.file.emit import emit
from torch_atalla.compiler.file.functional import resolve_kernels
from torch_atalla.compiler.targets.functional.pipeline import Compiled
from torch_atalla.driver import runtime
from torch_atalla.driver.extension import _C
from torch_atalla.loadable.method import port_types
from torch_atalla.loadable.tensor_spec import read_spec
from torch_atalla.version import __version__

_DRAWN = "random_positions"


def emit_program(compiled: Compiled) -> bytes:
    """Write the program as a loadable, without the metadata for callers of exported programs."""
    metadata = {"producer": f"torch_atalla {__version__}", "torch": torch.__version__.partition("+")[0]}
    if compiled.program.random_positions:
        metadata[_DRAWN] = str(compiled.program.random_positions)
    return emit(compiled, kernel_versions=resolve_kernels(compiled), crc32c=runtime.crc32c, metadata=metadata)


class CompiledRegion(torch.nn.Module):
    """A compiled function from tensors to a list of tensors.

    `arguments` names the arguments: tensors, and sizes that no tensor has. Tensors that it updates come last.
    """

    def __init__(self, data: bytes, device: torch.device):
        super().__init__()
        self.data = data
        self.program = runtime.Program(data)
        self.program.load(device.index)
        record = self.program.describe()
        inputs, outputs = ([read_spec(record, port) for port in record[what]] for what in ("inputs", "outputs"))
        updated = [port["name"] for port in record["outputs"] if port.get("updated")]
        self.arguments = [spec.name for spec in inputs] + updated
        drawn = int(record["metadata"].get(_DRAWN, 0))
        ports = port_types(inputs), port_types(outputs)
        self._run = _C.BoundMethod(self.program.handle, 0, device.index, *ports, len(updated), drawn)

    def __deepcopy__(self, memo: dict[int, Any]) -> CompiledRegion:
        """Return self. A run leaves no state in the program, so copies of a graph can share it."""
        return self

    def cycles(self) -> int:
        """Return the simulated cycles of one run. Dynamic sizes have their example values."""
        return self.program.estimate(0)

    def forward(self, *args: Any) -> list[torch.Tensor]:
        results = self._run(*args)
        if isinstance(results, list):
            return results
        if isinstance(results, int):
            self.program._check_call(results)
        found = [f"{a.dtype}{list(a.shape)} on {a.device}" if isinstance(a, torch.Tensor) else repr(a) for a in args]
        raise RuntimeError(f"a compiled graph was called with {', '.join(found)}, for which it was not compiled")
