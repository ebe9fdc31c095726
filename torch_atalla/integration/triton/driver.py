# SPDX-License-Identifier: BSD-3-Clause
"""Launches of compiled Triton kernels on tensors of the device `atalla`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase

from ...compiler.tile.launch import LoadedProgram
from .code import LoadedCode
from .compiler import BACKEND, WARP_SIZE


def _device() -> Any:
    """The module torch.atalla."""
    return torch.get_device_module(BACKEND)


class AtallaUtils:
    """What Triton asks about a device and its binaries."""

    @staticmethod
    def get_device_properties(device: int) -> dict[str, int]:
        properties = _device().get_device_properties(device)
        return {
            "max_shared_mem": 1 << 30,  # tiles live in the host's memory while an instance runs
            "max_num_regs": 256,
            "multiprocessor_count": getattr(properties, "multi_processor_count", 1),
            "warpSize": WARP_SIZE,
            "sm_clock_rate": 0,
            "mem_clock_rate": 0,
            "mem_bus_width": 64,
        }

    @staticmethod
    def load_binary(name: str, kernel: bytes, shared: int, device: int) -> tuple[Any, ...]:
        program = LoadedProgram.load(kernel)
        program.elsewhere = LoadedCode(program.ttir).runs
        return program, program, 0, 0, 1 << 20


class AtallaLauncher:
    def __init__(self, src: Any, metadata: Any) -> None:
        self.kinds = list(src.signature.values())

    def __call__(
        self, x: int, y: int, z: int, stream: int, function: LoadedProgram, packed: Any, launch_metadata: Any,
        enter: Callable[[Any], None] | None, leave: Callable[[Any], None] | None, *arguments: Any,
    ) -> None:  # fmt: skip
        pairs = [pair for kind, argument in zip(self.kinds, arguments, strict=True) for pair in _flat(kind, argument)]
        if enter is not None:
            enter(launch_metadata)
        values = [value for _, value in pairs]
        function.launch((x, y, z), [kind for kind, _ in pairs], values, _device_of(values))
        if leave is not None:
            leave(launch_metadata)


def _device_of(arguments: Iterable[Any]) -> torch.device:
    """Return the device of the first tensor on an atalla device; without one, the current device."""
    devices = (value.device for value in arguments if isinstance(value, torch.Tensor))
    current = torch.device(BACKEND, _device().current_device())
    return next((device for device in devices if device.type == BACKEND), current)


def _flat(kind: Any, argument: Any) -> Iterator[tuple[str, Any]]:
    """The runtime arguments of one argument: constants have none, tuples and descriptors several."""
    if isinstance(kind, tuple):
        for inner, value in zip(kind, argument, strict=True):
            yield from _flat(inner, value)
    elif kind.startswith("tensordesc"):
        yield f"*{kind}", argument.base
        yield from (("i64", n) for n in argument.shape)
        yield from (("i64", n) for n in argument.strides)
        yield "i1", argument.padding == "nan"
        yield from (("i32", n) for n in argument.shape)
        yield from (("i64", n) for n in argument.strides)
    elif kind != "constexpr":
        yield kind, getattr(argument, "base", argument)  # of triton.reinterpret, which reads it as another dtype


class AtallaDriver(DriverBase):
    """The active driver while torch_atalla is installed: Triton has one for a process."""

    def __init__(self) -> None:
        super().__init__()
        self.utils = AtallaUtils()
        self.launcher_cls = AtallaLauncher

    @classmethod
    def is_active(cls) -> bool:
        return bool(_device().is_available() and not torch.cuda.is_available())

    def map_python_to_cpp_type(self, ty: str) -> str:
        return "void*" if ty.startswith("*") else {"fp32": "float", "fp64": "double"}.get(ty, f"{ty}_t")

    def get_current_target(self) -> GPUTarget:
        return GPUTarget(BACKEND, "ax01", WARP_SIZE)

    def get_current_device(self) -> int:
        return int(_device().current_device())

    def set_current_device(self, device: int) -> None:
        _device().set_device(device)

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_active_torch_device(self) -> torch.device:
        return torch.device(BACKEND, self.get_current_device())

    def get_device_interface(self) -> Any:
        return _device()

    def get_benchmarker(self) -> Any:
        from triton.testing import do_bench

        return do_bench

    def get_empty_cache_for_benchmark(self) -> torch.Tensor:
        return torch.empty(1, dtype=torch.int32, device=BACKEND)  # the chip has no cache in front of its DRAM

    def clear_cache(self, cache: torch.Tensor) -> None:
        """Nothing to clear."""
