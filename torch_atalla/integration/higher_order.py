# SPDX-License-Identifier: BSD-3-Clause
"""Rules of PyTorch's higher-order operators for the device, where upstream has them for the CPU or CUDA only.

Upstream registers these rules by dispatch key, and it lists the keys by name: a device that registers itself later has
none of them. The test of this module compares the rules of all registered operators with those for CPU and CUDA.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import _ops
from torch._C import DispatchKey
from torch._export.wrappers import _export_tracepoint
from torch._higher_order_ops import utils
from torch._higher_order_ops.flex_attention import _flex_attention_autocast_impl, flex_attention
from torch._higher_order_ops.run_const_graph import run_const_graph
from torch._prims import rng_prims
from torch.fx.experimental.proxy_tensor import ProxyTorchDispatchMode, disable_proxy_modes_tracing, track_tensor_tree
from torch.utils import _pytree as pytree

from torch_atalla.device import random

_DEVICE = DispatchKey.PrivateUse1
_AUTOCAST: DispatchKey = getattr(DispatchKey, "AutocastPrivateUse1")  # noqa: B009  (not in the stubs)


def install() -> None:
    """Register the rules for the device's dispatch keys."""
    flex_attention.py_impl(_AUTOCAST)(_flex_attention_autocast)
    _fall_through_autocast()
    for operator in (_export_tracepoint, run_const_graph):  # the CPU's rules name no device
        operator.py_impl(_DEVICE)(operator.py_kernels[DispatchKey.CPU])
    rng_prims.register_graphsafe_rng_dispatch(_DEVICE)
    _select_device(
        rng_prims.graphsafe_run_with_rng_state, 1, lambda device, *a, **k: rng_prims._impl_graphsafe_rng(*a, **k)
    )
    _register_random(rng_prims.run_and_save_rng_state, 1, lambda device, /, *a, **k: draw_and_save([device], *a, **k))
    _register_random(
        rng_prims.run_with_rng_state, 2, lambda device, state, /, *a, **k: draw_again([device], [state], *a, **k)
    )
    _register_random(rng_prims.run_dtensor_rng_op, 3, _draw_at_offsets)
    _trace_run_and_save()


def draw_and_save(devices: Sequence[torch.device], function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call a function that draws. Return the states of the devices' generators before the call, and its result."""
    return (*map(get_state, devices), function(*args, **kwargs))


def draw_again(
    devices: Sequence[torch.device],
    states: Sequence[torch.Tensor],
    function: Callable[..., Any],
    /,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """Call a function that draws, from saved states, and return its result. The generators keep their states."""
    before = [get_state(device) for device in devices]
    try:
        for device, state in zip(devices, states):
            _set_state(device, state)
        return function(*args, **kwargs)
    finally:
        for device, state in zip(devices, before):
            _set_state(device, state)


def get_state(device: torch.device) -> torch.Tensor:
    """Return the state of the default generator of the device or the CPU."""
    return torch.get_rng_state() if device.type == "cpu" else random.get_rng_state(device)


def _set_state(device: torch.device, state: torch.Tensor) -> None:
    if device.type == "cpu":
        torch.set_rng_state(state)
    else:
        random.set_rng_state(state, device)


def _draw_at_offsets(device: torch.device, start: int, end: int, op: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Run a random op from the generator's offset plus `start`, and leave the generator at its offset plus `end`."""
    before = random.get_rng_state(device)
    random.set_rng_state(_advanced(before, start), device)
    try:
        return op(*args, **kwargs)
    finally:
        random.set_rng_state(_advanced(before, end), device)


def _advanced(state: torch.Tensor, offset: int) -> torch.Tensor:
    """Return a state (seed and offset, 64 bits each) whose offset is greater by `offset`."""
    seed, old = state.view(torch.int64).tolist()
    return torch.tensor([seed, old + offset], dtype=torch.int64).view(torch.uint8)


def _fall_through_autocast() -> None:
    """Let operators that have no rule for autocast pass it, those that are defined later included."""
    defaults = _ops._HIGHER_ORDER_OP_DEFAULT_FALLTHROUGH_DISPATCH_KEYS
    if _AUTOCAST not in defaults:
        defaults.append(_AUTOCAST)
    for operator in _ops._higher_order_ops.values():
        if _AUTOCAST not in operator.py_kernels:
            operator.fallthrough(_AUTOCAST)
        operator._dispatch_cache.clear()


def _flex_attention_autocast(query: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    # Upstream's rule calls the operator again without the autocast keys of CPU and CUDA only.
    with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(_AUTOCAST)):
        return _flex_attention_autocast_impl(query, *args, **kwargs)


def _device_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.device | None:
    """Return the device that a random op draws on: that of its argument `device`, or of its first tensor."""
    if kwargs.get("device") is not None:
        return torch.device(kwargs["device"])
    return next((arg.device for arg in args if isinstance(arg, torch.Tensor)), None)


def _select_device(operator: Any, before: int, kernel: Callable[..., Any]) -> None:
    """Let `operator` call `kernel(device, ...)` where its op draws on the device.

    Upstream's choice between devices is in the kernel of BackendSelect. `before` is the number of arguments up to the
    op that draws, inclusive.
    """
    upstream = operator.py_kernels[DispatchKey.BackendSelect]

    def select(*args: Any, **kwargs: Any) -> Any:
        device = _device_of(args[before:], kwargs)
        if device is None or device.type != "atalla":
            return upstream(*args, **kwargs)
        return kernel(device, *args, **kwargs)

    operator.py_kernels[DispatchKey.BackendSelect] = select
    operator._dispatch_cache.clear()


def _register_random(operator: Any, before: int, kernel: Callable[..., Any]) -> None:
    def rule(*args: Any, **kwargs: Any) -> Any:
        device = _device_of(args[before:], kwargs)
        return kernel(torch.device("atalla") if device is None else device, *args, **kwargs)

    operator.py_impl(_DEVICE)(rule)
    _select_device(operator, before, kernel)


def _trace_run_and_save() -> None:
    """Trace run_and_save_rng_state for the device, where upstream calls its choice between devices directly."""
    operator = rng_prims.run_and_save_rng_state
    fake, traced = utils.registered_hop_fake_fns[operator], operator.python_key_table[ProxyTorchDispatchMode]

    def on_device(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        device = _device_of(args, kwargs)
        return device is not None and device.type == "atalla"

    def run_fake(op: Any, *args: Any, **kwargs: Any) -> Any:
        if not on_device(args, kwargs):
            return fake(op, *args, **kwargs)
        return torch.empty(16, dtype=torch.uint8), op(*args, **kwargs)

    def trace(mode: Any, op: Any, *args: Any, **kwargs: Any) -> Any:
        if not on_device(args, kwargs):
            return traced(mode, op, *args, **kwargs)
        with disable_proxy_modes_tracing():
            out = operator(op, *args, **kwargs)
        proxy_args, proxy_kwargs = pytree.tree_map(mode.tracer.unwrap_proxy, ((op, *args), kwargs))
        proxy = mode.tracer.create_proxy("call_function", operator, proxy_args, proxy_kwargs)
        return track_tensor_tree(out, proxy, constant=None, tracer=mode.tracer)

    utils.registered_hop_fake_fns[operator] = run_fake
    operator.python_key_table[ProxyTorchDispatchMode] = trace
    operator._dispatch_cache.clear()
