# SPDX-License-Identifier: BSD-3-Clause
"""Rules by which Dynamo traces `torch.atalla`. Imported when torch._dynamo.convert_frame is (see __init__.py).

Dynamo has such rules for torch.cuda by name. NAMES is the same for torch.atalla; tools/dynamo_names.py compares both.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch._dynamo import graph_bytecode_inputs, trace_rules
from torch._dynamo.bytecode_transformation import create_call_function
from torch._dynamo.exc import unimplemented
from torch._dynamo.utils import common_constant_types
from torch._dynamo.variables import (
    ConstantVariable,
    SkipFunctionVariable,
    TorchInGraphFunctionVariable,
    VariableTracker,
    ctx_manager,
    streams,
    user_defined,
)
from torch._dynamo.variables import torch as torch_variables

from torch_atalla.device import namespace as atalla
from torch_atalla.device import nvtx
from torch_atalla.device.properties import DeviceProperties

from .current_device import guard_current_device

CONSTANT = "a constant"
GUARDED = "a constant with a guard"
NUMBER = "a number that the graph reads when it runs"
STREAM = "a stream of the graph"
CALL = "a call in the graph"
CONTEXT = "a context of the graph"
BREAK = "a graph break"

# How each name is traced. All other functions of the module break the graph.
NAMES: dict[str, str] = {
    **dict.fromkeys(
        ("can_device_access_peer", "device_count", "get_amp_supported_dtype", "get_arch_list", "is_available",
         "is_bf16_supported", "is_tf32_supported"),
        CONSTANT,
    ),
    **dict.fromkeys(
        ("_get_device_index", "clock_rate", "current_device", "get_device_capability", "get_device_name",
         "get_device_properties", "get_sync_debug_mode", "is_current_stream_capturing", "is_initialized"),
        GUARDED,
    ),
    **dict.fromkeys(
        ("device_memory_used", "max_memory_allocated", "max_memory_reserved", "memory_allocated", "memory_reserved"),
        NUMBER,
    ),
    **dict.fromkeys(("current_stream", "default_stream", "Stream"), STREAM),
    **dict.fromkeys(("Event", "synchronize", "_exchange_device", "_maybe_exchange_device"), CALL),
    **dict.fromkeys(("device", "device_of", "stream"), CONTEXT),
}  # fmt: skip


def _functions(module: Any, prefix: str = "") -> dict[str, Any]:
    found = {name: getattr(module, name) for name in module.__all__ if name != "default_generators"}
    return {prefix + name: value for name, value in found.items() if inspect.isfunction(value)}


FUNCTIONS = _functions(atalla) | _functions(nvtx, "nvtx.")
NAMES |= {name: BREAK for name in FUNCTIONS if name not in NAMES}


class AtallaDeviceVariable(ctx_manager.GenericDeviceVariable):
    """torch.atalla.device"""

    _exchange_fn = staticmethod(atalla._exchange_device)
    _maybe_exchange_fn = staticmethod(atalla._maybe_exchange_device)
    _get_device_index_fn = staticmethod(atalla._get_device_index)

    def module_name(self) -> str:
        return "torch.atalla"

    def python_type(self) -> type:
        return atalla.device


class AtallaStreamVariable(streams.StreamVariable):
    """A stream of torch.atalla's type."""

    _cpython_type = atalla.Stream
    _device_handle_attr = "atalla_stream"


def register() -> None:
    rules = trace_rules.manual_torch_name_rule_map
    inlined = ("Event", "Stream", "device", "device_of")  # classes
    for name, kind in NAMES.items():
        if name not in inlined:
            rules[f"torch.atalla.{name}"] = SkipFunctionVariable if kind is BREAK else TorchInGraphFunctionVariable
    trace_rules.get_torch_obj_rule_map.cache_clear()
    constants = {getattr(atalla, name): None for name, kind in NAMES.items() if kind in (CONSTANT, GUARDED)}
    torch_variables.constant_fold_functions.update(constants)  # type: ignore[attr-defined]
    guarded = {getattr(atalla, name): None for name, kind in NAMES.items() if kind is GUARDED}
    torch_variables.constant_fold_functions_need_guards.update(guarded)  # type: ignore[attr-defined]
    common_constant_types.add(DeviceProperties)
    ctx_manager.register_device_context_manager(atalla.device, AtallaDeviceVariable)
    user_defined.UserDefinedClassVariable._in_graph_classes().add(atalla.Stream)
    handlers = TorchInGraphFunctionVariable._get_handlers()
    handlers[atalla.stream] = _stream
    handlers[atalla.current_stream] = _current_stream
    handlers[atalla.default_stream] = lambda _, tx, *a, **k: _created(tx, stream_of_device, _index(a, k), True)
    handlers[atalla.synchronize] = _synchronize
    for exchange in {atalla._exchange_device, atalla._maybe_exchange_device}:
        handlers[exchange] = _exchange
    for name, kind in NAMES.items():
        if kind is NUMBER:
            handlers[getattr(atalla, name)] = _number(name)


def _index(args: tuple[VariableTracker, ...], kwargs: dict[str, VariableTracker]) -> int:
    """Return the ordinal that the argument `device` names."""
    given = args[0] if args else kwargs.get("device")
    device = None if given is None else given.as_python_constant()
    if device is None or (not isinstance(device, int) and torch.device(device).index is None):
        guard_current_device()
    return atalla._get_device_index(device)


def _stream(self: Any, tx: Any, stream: Any) -> VariableTracker:
    if stream.is_python_constant() and stream.as_python_constant() is None:
        return ctx_manager.NullContextVariable()
    return streams.StreamContextVariable.create(tx, stream)


def _current_stream(self: Any, tx: Any, *args: VariableTracker, **kwargs: VariableTracker) -> VariableTracker:
    index = _index(args, kwargs)
    entered = list(tx.symbolic_stream_state.cur_stream_stack)[1:]  # the first one is current when the call begins
    for stream in reversed(entered):
        if stream.device == torch.device("atalla", index):
            return AtallaStreamVariable(stream.proxy, stream.value, stream.user_object_index, source=stream.source)
    return _created(tx, stream_of_device, index, False)


@functools.cache
def _untraced_streams() -> Callable[[int, bool], torch.Stream]:
    """Return the function that gives a stream, and that Dynamo does not trace when the compiled code calls it."""
    return torch.compiler.disable(
        lambda index, default: atalla.default_stream(index) if default else atalla.current_stream(index)
    )


def stream_of_device(index: int, default: bool) -> torch.Stream:
    return _untraced_streams()(index, default)


def _created(tx: Any, make: Callable[..., Any], *constants: Any) -> VariableTracker:
    """Return the variable of an object that the compiled code makes before it runs the graph."""
    from torch._dynamo.eval_frame import skip_code
    from torch._dynamo.variables.builder import wrap_fx_proxy

    skip_code(make.__code__)  # Dynamo would compile the call in the compiled code, too

    def construct(index: int, codegen: Any) -> None:
        stash = graph_bytecode_inputs.__name__, "stash_graph_created_object"
        codegen.add_push_null(lambda: codegen.load_import_from(*stash))
        codegen.add_push_null(lambda: codegen.load_import_from(__name__, make.__name__))
        codegen.extend_output([codegen.create_load_const(constant) for constant in constants])
        codegen.extend_output(create_call_function(len(constants), False))
        codegen.extend_output(create_call_function(1, False))

    index = graph_bytecode_inputs.register_graph_created_object(make(*constants), construct)
    get = graph_bytecode_inputs.get_external_object_by_index
    return wrap_fx_proxy(tx=tx, proxy=tx.output.create_proxy("call_function", get, (index,), {}))


def _synchronize(self: Any, tx: Any, *args: VariableTracker, **kwargs: VariableTracker) -> VariableTracker:
    where = "atalla", _index(args, kwargs)
    tx.output.create_proxy("call_function", torch.ops.streams.synchronize_device, where, {})
    return ConstantVariable.create(None)


def _exchange(self: Any, tx: Any, device: VariableTracker) -> VariableTracker:
    guard_current_device()
    index = device.as_python_constant()
    previous = atalla._exchange_device(index)
    tx.output.create_node("call_function", atalla._exchange_device, (index,), {})
    tx.output.add_cleanup_hook(lambda: atalla.set_device(previous))
    return ConstantVariable.create(previous)


def _number(name: str) -> Callable[..., VariableTracker]:
    def handle(self: Any, tx: Any, *args: VariableTracker, **kwargs: VariableTracker) -> VariableTracker:
        from torch._dynamo.variables.builder import wrap_fx_proxy

        if len(args) + len(kwargs) > 1:
            unimplemented(
                gb_type=f"bad arguments of torch.atalla.{name}",
                context=f"args={args}, kwargs={kwargs}",
                explanation=f"torch.atalla.{name} takes one optional argument, the device.",
                hints=[],
            )
        given = (name, _index(args, kwargs))
        return wrap_fx_proxy(
            tx=tx, proxy=tx.output.create_proxy("call_function", torch.ops.atalla.memory_number.default, given, {})
        )

    return handle


@torch.library.custom_op("atalla::memory_number", mutates_args=(), tags=(torch.Tag.nondeterministic_seeded,))
def memory_number(name: str, device: int) -> int:
    """Return a number of the allocator, in bytes: an op, so that a graph reads it when it runs."""
    return int(getattr(atalla, name)(device))


@memory_number.register_fake
def _(name: str, device: int) -> torch.SymInt:
    return torch.library.get_ctx().new_dynamic_size()
