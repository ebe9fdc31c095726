# SPDX-License-Identifier: BSD-3-Clause
"""Lightning and Fabric: an Accelerator in their registries, its choice by "auto", and what they know only of CUDA.

The registries are Lightning's own interface for devices (it has no entry points for them). Four places do not ask the
accelerator: "auto" tries Lightning's own classes, a strategy of one device takes the CPU for unknown names, mixed
precision takes CUDA, and DDP makes a CUDA stream.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch

from torch_atalla.device import namespace as atalla

from .patching import add_to_list, replaces


def _parse(devices: Any) -> list[int]:
    """The ordinals that `devices` of a Trainer or Fabric selects: a number, -1 for all, or a list ("0,1" or [0, 1])."""
    present = list(range(atalla.device_count()))
    if isinstance(devices, str):
        numbers = [int(part) for part in devices.split(",") if part.strip()]
        devices = numbers if "," in devices else numbers[0]
    if isinstance(devices, int):
        chosen = present if devices == -1 else list(range(devices))
    else:
        chosen = present if list(devices) == [-1] else list(devices)
    absent = [i for i in chosen if i not in present]
    if absent or not chosen or len(set(chosen)) < len(chosen):
        raise ValueError(
            f"devices={devices!r}: expected a number of atalla devices or different ordinals among {present}. "
            "ATALLA_DEVICE_COUNT sets how many devices a process has."
        )
    return chosen


def _accelerator_class(base: type) -> type:
    """The device's Accelerator, derived from that of Lightning or of Fabric, which are imported only by the user."""

    class AtallaAccelerator(base):  # type: ignore[misc]
        """Accelerator of atalla devices: `Trainer(accelerator="atalla")`."""

        def setup_device(self, device: torch.device) -> None:
            if device.type != "atalla":
                raise ValueError(f"AtallaAccelerator: expected an atalla device, got {device}")
            atalla.set_device(device)

        def teardown(self) -> None:
            atalla.empty_cache()

        def get_device_stats(self, device: Any) -> dict[str, Any]:
            """Return the caching allocator's counters of `device`, for DeviceStatsMonitor."""
            return atalla.memory_stats(device)

        @staticmethod
        def parse_devices(devices: Any) -> list[int]:
            return _parse(devices)

        @staticmethod
        def get_parallel_devices(devices: list[int]) -> list[torch.device]:
            return [torch.device("atalla", i) for i in devices]

        @staticmethod
        def auto_device_count() -> int:
            return atalla.device_count()

        @staticmethod
        def is_available() -> bool:
            return atalla.is_available()

        @staticmethod
        def name() -> str:
            return "atalla"

        @classmethod
        def register_accelerators(cls, accelerator_registry: Any) -> None:
            accelerator_registry.register(cls.name(), cls, description=cls.__name__)

    return AtallaAccelerator


def _registry(name: str) -> Callable[[ModuleType], None]:
    def register(module: ModuleType) -> None:
        cls = _accelerator_class(module.Accelerator)
        cls.__module__ = module.__name__  # so that it can be pickled, as launchers of processes do
        setattr(module, cls.__name__, cls)
        cls.register_accelerators(getattr(module, name))  # type: ignore[attr-defined]

    return register


def _instead_of_cpu(original: Callable[[], str]) -> str:
    found = original()
    return "atalla" if found == "cpu" and atalla.is_available() else found


def _connector(cls: type, module: ModuleType) -> None:
    """The class that makes accelerator, strategy and precision of a Trainer's or Fabric's arguments."""

    @replaces(cls, "_set_parallel_devices_and_init_accelerator")
    def init_accelerator(original: Any, self: Any) -> None:
        original(self)
        if self.accelerator.name() == "atalla":
            self._accelerator_flag = "atalla"  # an instance was given; the rest compares names

    @replaces(cls, "_choose_strategy")
    def choose_strategy(original: Any, self: Any) -> Any:
        strategy = original(self)
        if self._accelerator_flag == "atalla" and isinstance(strategy, module.SingleDeviceStrategy):
            return module.SingleDeviceStrategy(device=self._parallel_devices[0])
        return strategy

    add_to_list(vars(cls)["_check_and_init_precision"], "atalla", beside="mps")
    add_to_list(vars(cls)["_check_strategy_and_fallback"], "atalla", beside="cuda")  # FSDP


def _fabric_connector(module: ModuleType) -> None:
    cls = module._Connector
    cls._choose_auto_accelerator = staticmethod(functools.partial(_instead_of_cpu, cls._choose_auto_accelerator))
    _connector(cls, module)


def _ddp(module: ModuleType) -> None:
    """DDP without `device_ids`, with which Lightning makes a torch.cuda.Stream. A module on one device needs none."""
    cls = module.DDPStrategy
    name = next(name for name in ("determine_ddp_device_ids", "_determine_ddp_device_ids") if name in vars(cls))

    @replaces(cls, name)
    def determine(original: Any, self: Any) -> Any:
        return None if self.root_device.type == "atalla" else original(self)


def _seed(module: ModuleType) -> None:
    """`isolate_rng` and the launchers of processes keep the states of the devices' generators too."""

    @replaces(module, "_collect_rng_states")
    def collect(original: Any, include_cuda: bool = True) -> dict[str, Any]:
        found = original(include_cuda)
        return found | {"torch.atalla": atalla.get_rng_state_all()} if include_cuda else found

    @replaces(module, "_set_rng_states")
    def restore(original: Any, rng_state_dict: dict[str, Any]) -> None:
        original(rng_state_dict)
        if "torch.atalla" in rng_state_dict:
            atalla.set_rng_state_all(rng_state_dict["torch.atalla"])


def _memory(module: ModuleType) -> None:
    """The search for a batch size compares messages of CUDA."""

    @replaces(module, "is_oom_error")
    def is_oom_error(original: Any, error: BaseException) -> bool:
        return isinstance(error, torch.OutOfMemoryError) or original(error)


_FABRIC = {
    "accelerators": _registry("ACCELERATOR_REGISTRY"),
    "connector": _fabric_connector,
    "strategies.ddp": _ddp,
    "utilities.device_parser": lambda module: replaces(module, "_select_auto_accelerator")(_instead_of_cpu),
    "utilities.seed": _seed,
}
_PYTORCH = {
    "accelerators": _registry("AcceleratorRegistry"),
    "trainer.connectors.accelerator_connector": lambda module: _connector(module._AcceleratorConnector, module),
    "strategies.ddp": _ddp,
    "utilities.memory": _memory,
}
# `lightning` has both; pytorch_lightning and lightning_fabric are the same code as packages of their own.
ADAPTED = {
    f"{package}.{name}": adapt
    for packages, files in (
        (("lightning.fabric", "lightning_fabric"), _FABRIC),
        (("lightning.pytorch", "pytorch_lightning"), _PYTORCH),
    )
    for package in packages
    for name, adapt in files.items()
}
