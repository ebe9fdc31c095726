# SPDX-License-Identifier: BSD-3-Clause
"""accelerate: devices, `accl`, mixed precision, placement of big models, checkpoints, launching.

accelerate chooses devices by a function per vendor (`is_npu_available`, ...) and takes CUDA for all others. Its only
way in from outside, the variable ACCELERATE_TORCH_DEVICE, reaches neither the process group nor the lists of names.
A group of processes has the type MULTI_GPU here, accelerate's type of "one process per device, DDP".
"""

from __future__ import annotations

import os
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from torch_atalla.device import namespace as atalla

from .patching import add_to_list, replaces


def _is_chosen() -> bool:
    """Whether the process's state, if there is one, or otherwise torch has atalla as its accelerator."""
    from accelerate.state import PartialState

    device = PartialState._shared_state.get("device")
    return (device or torch.accelerator.current_accelerator() or torch.device("cpu")).type == "atalla"


def _state(module: ModuleType) -> None:
    """`PartialState`: the device of the process, and the backend of its group."""
    cls, distributed = module.PartialState, module.DistributedType
    default = cls.default_device.fget

    def default_device(self: Any) -> torch.device:
        found = default(self)
        return torch.device("atalla") if found.type == "cpu" and atalla.is_available() else found

    cls.default_device = property(default_device, doc=cls.default_device.__doc__)

    @replaces(cls, "_prepare_backend")
    def prepare_backend(
        original: Any, self: Any, cpu: bool = False, sagemaker_dp: bool = False, backend: str | None = None
    ) -> Any:
        found, kind = original(self, cpu, sagemaker_dp, backend)
        device = self.device or self.default_device
        if kind != distributed.NO or cpu or device.type != "atalla" or int(os.environ.get("LOCAL_RANK", -1)) == -1:
            return found, kind
        return backend or _backend(), distributed.MULTI_GPU

    @replaces(cls, "set_device")
    def set_device(original: Any, self: Any) -> None:
        device = self.device or self.default_device
        if self.distributed_type != distributed.MULTI_GPU or device.type != "atalla":
            original(self)
        elif device.index is None:
            index = self.local_process_index % atalla.device_count()
            self.device = torch.device("atalla", index)
            atalla.set_device(index)


def _backend() -> str:
    """`accl`; with Gloo beside it where FSDP keeps parameters or full state dicts on the CPU, as accelerate does."""

    def variable(name: str, default: str) -> str:
        return os.environ.get(name, default).lower()

    backend = torch.distributed.Backend.default_device_backend_map["atalla"]
    offloads = variable("FSDP_OFFLOAD_PARAMS", "false") == "true"
    whole = variable("FSDP_STATE_DICT_TYPE", "SHARDED_STATE_DICT") == "full_state_dict"
    if variable("ACCELERATE_USE_FSDP", "false") == "true" and (offloads or whole):
        return f"atalla:{backend},cpu:gloo"
    return backend


def _accelerator(module: ModuleType) -> None:
    """fp16: `Accelerator.__init__` has the names of the devices that may use it."""
    add_to_list(module.Accelerator.__init__, "atalla", beside="npu")


def _modeling(module: ModuleType) -> None:
    """The gradient scaler, and the memory that placement may use."""

    @replaces(module, "get_grad_scaler")
    def get_grad_scaler(original: Any, distributed_type: Any = None, **kwargs: Any) -> Any:
        if not _is_chosen():
            return original(distributed_type, **kwargs)
        if distributed_type == module.DistributedType.FSDP:
            from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler

            return ShardedGradScaler(device="atalla", **kwargs)
        return torch.amp.GradScaler("atalla", **kwargs)

    @replaces(module, "get_max_memory")
    def get_max_memory(original: Any, max_memory: dict[Any, Any] | None = None) -> dict[Any, Any]:
        if not _is_chosen():
            return original(max_memory)
        devices = range(atalla.device_count())
        if max_memory is None:
            of_host = original(None)
            return {i: atalla.mem_get_info(i)[0] for i in devices} | of_host
        others = original({key: size for key, size in max_memory.items() if not isinstance(key, int)})
        ours = {key: size for key, size in max_memory.items() if isinstance(key, int)}
        for key in ours:
            if key not in devices:
                module.logger.warning(f"Device {key} is not available, available devices are {list(devices)}")
        sizes = {i: module.convert_file_size_to_int(ours[i]) for i in sorted(ours)}
        return sizes | others


def _memory(module: ModuleType) -> None:
    """`clear_device_cache`, which `release_memory` and `find_executable_batch_size` call, and what is out of memory."""

    @replaces(module, "clear_device_cache")
    def clear_device_cache(original: Any, garbage_collection: bool = False) -> None:
        original(garbage_collection)
        atalla.empty_cache()

    @replaces(module, "should_reduce_batch_size")
    def should_reduce_batch_size(original: Any, error: Exception) -> bool:
        return isinstance(error, torch.OutOfMemoryError) or original(error)


def _checkpointing(module: ModuleType) -> None:
    """The states of the devices' generators, in the file that has those of CUDA's."""
    key = "torch_atalla_manual_seed"

    def states_file(folder: Any, process_index: int) -> Path:
        return Path(folder) / f"{module.RNG_STATE_NAME}_{process_index}.pkl"

    @replaces(module, "save_accelerator_state")
    def save(original: Any, output_dir: str, *args: Any, **kwargs: Any) -> Any:
        folder = original(output_dir, *args, **kwargs)
        path = states_file(folder, module.PartialState().process_index)
        torch.save(module.load(path) | {key: atalla.get_rng_state_all()}, path)
        return folder

    @replaces(module, "load_accelerator_state")
    def load(original: Any, input_dir: Any, *args: Any, **kwargs: Any) -> Any:
        attributes = original(input_dir, *args, **kwargs)
        path = states_file(input_dir, module.PartialState().process_index)
        states = module.load(path) if path.is_file() else {}
        if key in states:
            atalla.set_rng_state_all(states[key])
        return attributes


def _dataclasses(module: ModuleType) -> None:
    """`ProfileKwargs(activities=["atalla"])`, and the device on which FSDP makes parameters."""

    @replaces(module.ProfileKwargs, "_get_profiler_activity")
    def get_profiler_activity(original: Any, self: Any, name: str) -> Any:
        return torch.profiler.ProfilerActivity.PrivateUse1 if name == "atalla" else original(self, name)

    @replaces(module.FullyShardedDataParallelPlugin, "__post_init__")
    def post_init(original: Any, self: Any) -> None:
        try:
            original(self)
        except RuntimeError as error:  # its last step with `sync_module_states`: the current device, by vendor
            if "no available devices" not in str(error):
                raise
            device = torch.device("atalla", atalla.current_device())
            self.param_init_fn = lambda part: part.to_empty(device=device, recurse=False)


def _environment(module: ModuleType) -> None:
    """`notebook_launcher`: the device's name in messages."""

    @replaces(module, "get_current_device_type")
    def get_current_device_type(original: Any) -> tuple[str, str]:
        return ("atalla", "MULTI_GPU") if _is_chosen() else original()


def _launch(module: ModuleType) -> None:
    """`accelerate launch` without a configuration starts a process per device."""

    @replaces(module, "_validate_launch_command")
    def validate(original: Any, args: Any) -> Any:
        configured = args.config_file is not None or os.path.isfile(module.default_config_file)
        other = args.cpu or args.tpu or args.use_deepspeed or args.use_fsdp or args.use_megatron_lm
        if not configured and not other and _is_chosen():
            if args.num_processes is None:
                args.num_processes = atalla.device_count()
            args.multi_gpu = args.multi_gpu or args.num_processes > 1
        return original(args)


ADAPTED = {
    "accelerate.state": _state,
    "accelerate.accelerator": _accelerator,
    "accelerate.utils.modeling": _modeling,
    "accelerate.utils.memory": _memory,
    "accelerate.checkpointing": _checkpointing,
    "accelerate.utils.dataclasses": _dataclasses,
    "accelerate.utils.environment": _environment,
    "accelerate.commands.launch": _launch,
}
