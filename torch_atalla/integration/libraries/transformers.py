# SPDX-License-Identifier: BSD-3-Clause
"""transformers: the device of Trainer and of pipelines, bf16, checkpoints, the backend of `tp_plan` and the like.

transformers asks a function per vendor (`is_torch_npu_available`, ...) and ends with CUDA or the CPU. Trainer gets its
process group and its precision from accelerate.
"""

from __future__ import annotations

import functools
import inspect
import os
from types import ModuleType
from typing import Any

import torch

from torch_atalla.device import namespace as atalla

from .patching import replaces


def _is_accelerator() -> bool:
    accelerator = torch.accelerator.current_accelerator()
    return accelerator is not None and accelerator.type == "atalla"


def _import_utils(module: ModuleType) -> None:
    """`TrainingArguments(bf16=True)` is refused unless this function finds a vendor's device."""

    @replaces(module, "is_torch_bf16_gpu_available")
    def is_torch_bf16_gpu_available(original: Any) -> bool:
        return original() or (_is_accelerator() and atalla.is_bf16_supported())


def _training_args(module: ModuleType) -> None:
    """The device of a Trainer in one process, which is not that of accelerate's state but chosen a second time."""
    cls = module.TrainingArguments
    original = vars(cls)["_setup_devices"].func

    @functools.wraps(original)
    def setup_devices(self: Any) -> torch.device:
        device = original(self)
        state = self.distributed_state
        if device.type != "cpu" or state is None or state.device.type != "atalla":
            return device
        return state.device if state.device.index is not None else torch.device("atalla", 0)

    cls._setup_devices = functools.cached_property(setup_devices)
    cls._setup_devices.__set_name__(cls, "_setup_devices")


def _trainer(module: ModuleType) -> None:
    """The states of the devices' generators, in the file that has those of other devices."""
    key = "atalla"

    def states_file(self: Any, folder: str) -> str:
        suffix = f"_{self.args.process_index}" if self.args.world_size > 1 else ""
        return os.path.join(folder, f"rng_state{suffix}.pth")

    def load(path: str) -> dict[str, Any]:
        with module.safe_globals():
            return torch.load(path, weights_only=True)

    @replaces(module.Trainer, "_save_rng_state")
    def save_rng_state(original: Any, self: Any, output_dir: str) -> None:
        original(self, output_dir)
        path = states_file(self, output_dir)
        torch.save(load(path) | {key: atalla.get_rng_state_all()}, path)

    @replaces(module.Trainer, "_load_rng_state")
    def load_rng_state(original: Any, self: Any, checkpoint: str | None) -> None:
        original(self, checkpoint)
        path = states_file(self, checkpoint) if checkpoint is not None else ""
        states = load(path) if os.path.isfile(path) else {}
        if key in states:
            atalla.set_rng_state_all(states[key])


def _pipelines(module: ModuleType) -> None:
    """The device of a pipeline that was given a number or, as for other accelerators, nothing."""

    @replaces(module.Pipeline, "__init__")
    def init(original: Any, self: Any, *args: Any, **kwargs: Any) -> None:
        given = inspect.signature(original).bind(self, *args, **kwargs)
        device = given.arguments.get("device")
        if device is None:
            device = next(iter((getattr(given.arguments["model"], "hf_device_map", None) or {"": 0}).values()))
        if isinstance(device, int) and device >= 0 and _is_accelerator():
            # A model in parts stays where it is: the pipeline refuses a device for it, and asks its map itself.
            if getattr(given.arguments["model"], "hf_device_map", None) is None:
                given.arguments["device"] = torch.device("atalla", device)
        original(*given.args, **given.kwargs)
        if self.device.type == "cpu" and isinstance(device, int) and device >= 0 and _is_accelerator():
            self.device = torch.device("atalla", device)


def _distributed(module: ModuleType) -> None:
    """The backend that `from_pretrained(tp_plan="auto")` and the like make a process group of."""
    module.DISTRIBUTED_BACKEND_MAP["atalla"] = torch.distributed.Backend.default_device_backend_map["atalla"]


def _continuous_batching(module: ModuleType) -> None:
    """Continuous batching: the memory that its cache may take, and its stream.

    It writes a batch's inputs on the current stream and reads them on a stream of its own that does not wait. Where the
    two really run apart, the model reads the inputs of an earlier batch; transformers makes no stream on MPS for this.
    """

    @replaces(module, "get_device_and_memory_breakdown")
    def get_device_and_memory_breakdown(original: Any) -> tuple[torch.device, int, int, int]:
        found = original()
        if found[0].type != "cpu" or not _is_accelerator():
            return found
        atalla.empty_cache()
        atalla.synchronize()
        free, total = atalla.mem_get_info()
        return torch.device("atalla"), total, atalla.memory_reserved(), total - free

    @replaces(module, "create_device_stream")
    def create_device_stream(original: Any, device: torch.device) -> Any:
        return None if device.type == "atalla" else original(device)


ADAPTED = {
    "transformers.utils.import_utils": _import_utils,
    "transformers.training_args": _training_args,
    "transformers.trainer": _trainer,
    "transformers.pipelines.base": _pipelines,
    "transformers.distributed.utils": _distributed,
    "transformers.generation.continuous_batching.utils": _continuous_batching,
}
