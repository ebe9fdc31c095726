# SPDX-License-Identifier: BSD-3-Clause
"""What the methods of a file share: pools, kernels, weights, states and golden records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import torch

from torch_atalla.driver.dtypes import name as dtype_name
from torch_atalla.loadable.errors import ExportError
from torch_atalla.loadable.file.container import Checksum
from torch_atalla.loadable.file.format import STATE_HAS_INITIAL, Section, Space
from torch_atalla.loadable.file.records import Tables

from ..program.ir import Buffer
from ..schedule.plan import ALIGNMENT
from ..targets.functional.pipeline import Compiled


@dataclass(frozen=True)
class GoldenRecord:
    """What a method gives on inputs made from `seed`; see docs/reference/loadable-format.md, GOLDENS."""

    method: int
    seed: int
    bounds: tuple[float, ...]
    symbols: tuple[int, ...]
    samples: tuple[float, ...]
    rtol: float
    atol: float


class FileContents:
    """What the methods of a file share: pools, kernels, weights, states."""

    def __init__(self, kernel_versions: Mapping[str, int], crc32c: Checksum):
        self.versions = kernel_versions
        self.crc32c = crc32c
        self.tables = Tables()
        self.kernels: dict[str, int] = {}
        self.constants: dict[tuple[int, int], int] = {}  # address and bytes of a tensor -> storage
        self.stored: dict[tuple[int, int], list[int]] = {}  # bytes and checksum -> offsets in the weights
        self.states: dict[str, int] = {}  # name -> storage
        self.state_types: dict[str, str] = {}
        self.state_bytes = 0
        self.kept: set[str] = set()  # parameters and buffers that can be replaced
        self.used: set[str] = set()  # parameters and buffers that went into other constants
        self.metadata: dict[str, str] = {}  # of the methods
        self.packed: dict[str, str] = {}  # name -> orientation and sizes of a matrix that the file holds packed

    def kernel(self, name: str) -> int:
        if name not in self.kernels:
            version = self.versions[name]
            self.kernels[name] = self.tables.add(Section.KERNELS, *self.tables.string(name), version)
        return self.kernels[name]

    def constant(self, buffer: Buffer) -> int:
        """The storage of a constant. Tensors on the same memory share it, equal bytes share their place in the file."""
        assert buffer.tensor is not None
        key = (buffer.tensor.data_ptr(), buffer.nbytes)
        if key not in self.constants or buffer.nbytes == 0:
            offset = self.store(buffer.tensor)
            name = self.tables.string(buffer.name)
            self.constants[key] = self.tables.add(Section.STORAGES, Space.WEIGHTS, buffer.nbytes, offset, 0, 0, *name)
        return self.constants[key]

    def store(self, tensor: torch.Tensor) -> int:
        """Appends a dense tensor to the weights, unless its bytes stand there already, and gives their offset."""
        weights = self.tables.data[Section.WEIGHTS]
        if not tensor.numel():
            return 0
        flat = tensor.detach().as_strided((tensor.numel(),), (1,), tensor.storage_offset())
        data = flat.view(torch.uint8).numpy().data
        places = self.stored.setdefault((len(data), self.crc32c(data)), [])
        for offset in places:
            if memoryview(weights)[offset : offset + len(data)] == data:
                return offset
        weights += bytes(-len(weights) % ALIGNMENT)
        places.append(len(weights))
        weights += data
        return places[-1]

    def state(self, buffer: Buffer, value: Callable[[int], int]) -> int:
        """The storage of a mutable buffer; `value` adds the value on it, for the method that comes first."""
        assert buffer.tensor is not None
        if buffer.name not in self.states:
            tables, tensor = self.tables, buffer.tensor
            offset = -(-self.state_bytes // ALIGNMENT) * ALIGNMENT
            self.state_bytes = offset + buffer.nbytes
            name = tables.string(buffer.name)
            index = tables.add(Section.STORAGES, Space.STATE, buffer.nbytes, offset, 0, 0, *name)
            self.states[buffer.name] = index
            self.state_types[buffer.name] = _type(tensor)
            zeros = not tensor.reshape(-1).view(torch.uint8).any()
            initial = (0, 0) if zeros else (STATE_HAS_INITIAL, self.store(tensor))
            tables.add(Section.STATES, *name, value(index), *initial)
        elif self.state_types[buffer.name] != _type(buffer.tensor):
            raise ExportError(
                f"two methods have the mutable buffer {buffer.name!r} as {self.state_types[buffer.name]} and as "
                f"{_type(buffer.tensor)}; expected one type"
            )
        return self.states[buffer.name]

    def golden(self, golden: GoldenRecord) -> None:
        tables = self.tables
        refs = (tables.doubles(golden.bounds), tables.integers(golden.symbols), tables.doubles(golden.samples))
        fields = [number for ref in refs for number in ref]
        tables.add(Section.GOLDENS, golden.method, golden.seed, *fields, golden.rtol, golden.atol)

    def folded(self, methods: Iterable[Compiled]) -> str:
        """Names whose replacement would not reach all that was computed from them, one a line."""
        names = frozenset[str]().union(*(compiled.captured.names for compiled in methods))
        return "\n".join(sorted((names - self.kept - set(self.states)) | (self.used & names)))


def _type(tensor: torch.Tensor) -> str:
    return f"{dtype_name(tensor.dtype)}{list(tensor.shape)} with strides {list(tensor.stride())}"
