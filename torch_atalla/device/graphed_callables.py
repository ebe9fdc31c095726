# SPDX-License-Identifier: BSD-3-Clause
"""make_graphed_callables: parts of a network, each replayed as one graph forward and one backward."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils import _pytree as pytree

from .devices import current_device, device
from .graphs import Graph, graph, graph_pool_handle

__all__ = ["make_graphed_callables"]


@dataclass
class _Part:
    """One callable on its way to being graphed. `inputs`: its arguments, then its parameters."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    inputs: tuple[torch.Tensor, ...]
    n_args: int
    forward: Graph = field(default_factory=Graph)
    backward: Graph | None = None
    outputs: tuple[torch.Tensor, ...] = ()
    structure: Any = None
    grad_outputs: tuple[torch.Tensor | None, ...] = ()
    grad_inputs: tuple[torch.Tensor | None, ...] = ()


def _prepare(function: Callable[..., Any], args: Sequence[Any]) -> _Part:
    leaves = pytree.tree_leaves(tuple(args))
    if not all(isinstance(leaf, torch.Tensor) for leaf in leaves):
        raise TypeError("make_graphed_callables: sample_args may contain only Tensors")
    parameters: tuple[torch.Tensor, ...] = ()
    if isinstance(function, torch.nn.Module):
        if function._backward_hooks or function._forward_hooks or function._forward_pre_hooks:
            raise RuntimeError("make_graphed_callables: register hooks after this call, not before it")
        if any(buffer.requires_grad for buffer in function.buffers()):
            raise RuntimeError("make_graphed_callables: buffers of modules must not require gradients")
        parameters = tuple(function.parameters())
    return _Part(function, tuple(args), tuple(leaves) + parameters, len(leaves))


def _device_of(parts: Sequence[_Part]) -> int:
    """The device of all arguments and parameters; the current one if there are none. Raises ValueError for several."""
    devices = {tensor.device for part in parts for tensor in part.inputs}
    if not devices:
        return current_device()
    if len(devices) > 1 or (found := devices.pop()).type != "atalla":
        names = ", ".join(sorted({str(tensor.device) for part in parts for tensor in part.inputs}))
        raise ValueError(
            f"make_graphed_callables: expected arguments and parameters on one atalla device, got tensors on {names}; "
            "graph the parts of each device in a call of their own"
        )
    return found.index


def _gradients(
    part: _Part, outputs: Sequence[Any], grad_outputs: Sequence[torch.Tensor | None], allow_unused: bool
) -> tuple[torch.Tensor | None, ...]:
    """The gradient of the outputs for each input; None for an input without one."""
    wanted = [i for i in part.inputs if i.requires_grad]
    pairs = [(o, g) for o, g in zip(outputs, grad_outputs) if g is not None]
    if not wanted or not pairs:
        return (None,) * len(part.inputs)
    found = iter(torch.autograd.grad([o for o, _ in pairs], wanted, [g for _, g in pairs], allow_unused=allow_unused))
    return tuple(next(found) if i.requires_grad else None for i in part.inputs)


def _like(outputs: Sequence[torch.Tensor]) -> tuple[torch.Tensor | None, ...]:
    return tuple(torch.zeros_like(o) if o.requires_grad else None for o in outputs)


def _warm_up(parts: Sequence[_Part], iterations: int, allow_unused: bool) -> None:
    torch.accelerator.synchronize()
    with torch.Stream(device=torch.accelerator.current_accelerator()):
        for part in parts:
            for _ in range(iterations):
                outputs = pytree.tree_leaves(part.function(*part.args))
                _gradients(part, outputs, _like(outputs), allow_unused)
    torch.accelerator.synchronize()


def _capture(parts: Sequence[_Part], pool: tuple[int, int], allow_unused: bool) -> None:
    """All passes in the order in which they will run, since they share memory: forwards, then backwards in reverse."""
    for part in parts:
        with graph(part.forward, pool=pool):
            result = part.function(*part.args)
        outputs, part.structure = pytree.tree_flatten(result)
        part.outputs = tuple(outputs)
    for part in reversed(parts):
        part.grad_outputs = _like(part.outputs)
        part.grad_inputs = (None,) * len(part.inputs)
        if any(g is not None for g in part.grad_outputs) and any(i.requires_grad for i in part.inputs):
            part.backward = Graph()
            with graph(part.backward, pool=pool):
                part.grad_inputs = _gradients(part, part.outputs, part.grad_outputs, allow_unused)


def _copy_in(static: torch.Tensor, given: torch.Tensor) -> None:
    if static.data_ptr() != given.data_ptr():
        static.copy_(given)


def _replayer(part: _Part) -> Callable[..., Any]:
    class Graphed(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
            for static, given in zip(part.inputs[: part.n_args], inputs):
                _copy_in(static, given)
            part.forward.replay()
            return tuple(o.detach() for o in part.outputs)

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx: Any, *grads: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
            for static, given in zip(part.grad_outputs, grads):
                if static is not None:
                    _copy_in(static, given)
            if part.backward is not None:
                part.backward.replay()
            return tuple(None if g is None else g.detach() for g in part.grad_inputs)

    parameters = part.inputs[part.n_args :]

    def call(*args: Any) -> Any:
        leaves = pytree.tree_leaves(args)
        if len(leaves) != part.n_args:
            raise TypeError(f"graphed callable: expected {part.n_args} tensors as in sample_args, got {len(leaves)}")
        return pytree.tree_unflatten(Graphed.apply(*leaves, *parameters), part.structure)

    return call


def make_graphed_callables(
    callables: Any,
    sample_args: Any,
    num_warmup_iters: int = 3,
    allow_unused_input: bool = False,
    pool: tuple[int, int] | None = None,
) -> Any:
    """Graphs callables for use in a training loop; autograd sees each as one operation.

    Args:
        callables: a module or function, or a tuple of them in the order in which they will run.
        sample_args: a tuple of tensors on atalla, or one for each callable. Shapes, dtypes, devices and requires_grad
            are those of the later calls.
        num_warmup_iters: eager runs before the capture.
        allow_unused_input: inputs without a gradient are no error.
        pool: id of a memory pool to share.

    Returns the modules themselves, whose forward replays while `training` is what it was here, and a new function for
    each function. Results and gradients are in the same memory at every call: the next call overwrites them. No
    double backward; autocast only with `cache_enabled=False`.
    """
    if torch.is_autocast_enabled("atalla") and torch.is_autocast_cache_enabled():
        raise RuntimeError(
            "make_graphed_callables does not support the autocast caching. Please set `cache_enabled=False`."
        )
    single = not isinstance(callables, tuple)
    functions = (callables,) if single else callables
    arguments = (sample_args,) if single else sample_args
    parts = [_prepare(f, a) for f, a in zip(functions, arguments, strict=True)]
    with device(_device_of(parts)):
        _warm_up(parts, num_warmup_iters, allow_unused_input)
        _capture(parts, graph_pool_handle() if pool is None else pool, allow_unused_input)

    results: list[Any] = []
    for part in parts:
        replay = _replayer(part)
        if isinstance(part.function, torch.nn.Module):
            module, eager, training = part.function, part.function.forward, part.function.training

            def forward(
                *args: Any, module: Any = module, eager: Any = eager, training: bool = training, replay: Any = replay
            ) -> Any:
                return replay(*args) if module.training == training else eager(*args)

            module.forward = forward
            results.append(module)
        else:
            results.append(replay)
    return results[0] if single else tuple(results)
