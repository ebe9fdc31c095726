# SPDX-License-Identifier: BSD-3-Clause
"""Properties of a device: its name, sizes, clock and supported dtypes."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch

from torch_atalla.driver.extension import _C

from .index import device_index
from .lifecycle import device_count

__all__ = [
    "clock_rate", "device_memory_used", "get_amp_supported_dtype", "get_arch_list", "get_device_capability",
    "get_device_name", "get_device_properties", "has_half", "has_magma", "is_bf16_supported", "is_tf32_supported",
]  # fmt: skip

has_half: bool = True
has_magma: bool = False  # linear algebra runs on the chip's own kernels


@dataclass(frozen=True, repr=False)
class DeviceProperties:
    """A device's numbers, from the chip configuration. Sizes in bytes, clock in Hz unless a name says otherwise."""

    name: str
    ordinal: int
    major: int  # the device ABI that the device library speaks (csrc/sim/abi/atalla.h)
    minor: int
    total_memory: int
    dram_alignment: int
    cores: int
    scratchpads: int
    scratchpad_bytes: int  # each
    vector_lanes: int
    array_rows: int
    array_columns: int
    clock_hz: float
    bus_bytes_per_cycle: float

    @property
    def multi_processor_count(self) -> int:
        """The cores of the chip. Each has a scalar core, vector units and a systolic array."""
        return self.cores

    @property
    def clock_rate(self) -> int:
        """The clock in kHz, torch.cuda's unit."""
        return round(self.clock_hz / 1e3)

    @property
    def memory_bus_width(self) -> int:
        """Bits that the memory bus moves in a beat."""
        return round(self.bus_bytes_per_cycle * 8)

    def __repr__(self) -> str:
        return (
            f"_AtallaDeviceProperties(name='{self.name}', ordinal={self.ordinal}, major={self.major}, "
            f"minor={self.minor}, total_memory={self.total_memory // 2**20}MB, "
            f"scratchpads={self.scratchpads}x{self.scratchpad_bytes // 2**10}KB, "
            f"array={self.array_rows}x{self.array_columns}, vector_lanes={self.vector_lanes}, "
            f"clock={self.clock_hz / 1e6:g}MHz, bus={self.bus_bytes_per_cycle:g}B/cycle)"
        )

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def get_device_properties(device: Any = None) -> DeviceProperties:
    """Raises AssertionError for an ordinal that does not exist."""
    index = device_index(device)
    if not 0 <= index < device_count():
        raise AssertionError("Invalid device id")
    return DeviceProperties(**_C.properties(index))


def get_device_name(device: Any = None) -> str:
    """The name of the chip."""
    return get_device_properties(device).name


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """(major, minor) of the device ABI that the device speaks.

    The dtypes that it takes: `torch.accelerator.get_device_capability()["supported_dtypes"]`.
    """
    properties = get_device_properties(device)
    return properties.major, properties.minor


def get_arch_list() -> list[str]:
    """Chips that this build drives: the one of the device library."""
    return sorted({get_device_name(i).split()[-1].lower() for i in range(device_count())})


def clock_rate(device: Any = None) -> int:
    """The chip's clock in MHz. Constant: the simulated chip neither throttles nor boosts."""
    return round(get_device_properties(device).clock_hz / 1e6)


def device_memory_used(device: Any = None) -> int:
    """Bytes of the device's DRAM that are taken, caches included."""
    index = device_index(device)
    free, total = torch.accelerator.get_memory_info(index)
    return total - free


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """True: the vector unit and the array compute in bfloat16."""
    return True


def is_tf32_supported() -> bool:
    """False: float32 products keep all bits of their factors, whatever torch.set_float32_matmul_precision says."""
    return False


def get_amp_supported_dtype() -> list[torch.dtype]:
    """The dtypes of torch.autocast on the device."""
    return [torch.float16, torch.bfloat16]
