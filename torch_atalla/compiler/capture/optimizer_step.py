# SPDX-License-Identifier: BSD-3-Clause
"""A step of an optimizer of torch.optim as ops on tensors, for make_fx.

Numbers that depend on the count of steps, or on values, are tensors here. The optimizers read them as Python numbers.
"""

from __future__ import annotations

import builtins
import copy
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from math import log
from typing import Any
from unittest import mock

import torch
from torch.optim import _adafactor
from torch.overrides import TorchFunctionMode

aten = torch.ops.aten

# Optimizers that are no function of parameters, gradients and states alone, with the reason.
_REFUSED: dict[type, str] = {
    torch.optim.LBFGS: "it computes the loss several times per step; take another optimizer of torch.optim",
    torch.optim.SparseAdam: "it takes sparse gradients, which a loadable does not hold; take Adam",
}

# Those whose step without capturable=True decides in Python by a number that changes from step to step.
_CAPTURABLE = (torch.optim.ASGD, torch.optim.NAdam, torch.optim.RAdam, torch.optim.Rprop, torch.optim.Adamax)


def refusal(optimizer: torch.optim.Optimizer, reason: str) -> ValueError:
    return ValueError(f"{type(optimizer).__name__} cannot become a training step: {reason}")


def first_states(optimizer: torch.optim.Optimizer) -> list[dict[str, torch.Tensor]]:
    """The tensors of each parameter's state, in the order of the groups; those of a parameter without a state are the
    ones that the optimizer makes before its first step. Raises ValueError for optimizers that are refused."""
    for kind, reason in _REFUSED.items():
        if isinstance(optimizer, kind):
            raise refusal(optimizer, reason)
    fresh = copy.deepcopy(optimizer)
    fresh.state.clear()
    given = [p for group in optimizer.param_groups for p in group["params"]]
    copies = [p for group in fresh.param_groups for p in group["params"]]
    before: Any = optimizer.state
    if isinstance(optimizer, torch.optim.Adagrad):  # makes its states at once
        missing = []
    else:
        missing = [p for p, original in zip(copies, given) if not before.get(original)]
    for group in fresh.param_groups:
        group.update(_options(fresh, group))
        lacking = [p for p in group["params"] if any(p is other for other in missing)]
        if lacking and group.get("dampening"):
            raise refusal(optimizer, "with dampening its first step differs from the others; take that step before")
        for p in group["params"]:
            p.grad = torch.zeros_like(p)
        _make(optimizer, fresh, group)
    found = []
    for p, original in zip(copies, given):
        state = before.get(original) or fresh.state[p]
        tensors = {name: v for name, v in state.items() if v is not None}
        for name, value in tensors.items():
            if not isinstance(value, torch.Tensor):
                raise refusal(optimizer, f"its state {name!r} is a {type(value).__name__}, expected tensors")
        if "step" in tensors:
            tensors["step"] = tensors["step"].to(torch.int64)
        found.append(tensors)
    return found


def _make(optimizer: torch.optim.Optimizer, fresh: Any, group: dict[str, Any]) -> None:
    """Let a copy of the optimizer make its states."""
    make = getattr(fresh, "_init_group", None)
    if make is not None:
        lists = len(inspect.signature(make).parameters) - 1
        make(group, *([] for _ in range(lists)))
        if group.get("momentum") and isinstance(optimizer, torch.optim.SGD):  # which takes the first gradient instead
            for p in group["params"]:
                fresh.state[p].setdefault("momentum_buffer", torch.zeros_like(p))
        return
    kept: dict[str, Any] = {name: group[name] for name in ("lr", "weight_decay") if name in group}
    group.update(dict.fromkeys(kept, 0.0))
    fresh.step()
    group.update(kept)
    for p in group["params"]:
        if "step" in fresh.state[p]:
            fresh.state[p]["step"] = torch.as_tensor(fresh.state[p]["step"]) * 0


def _options(optimizer: torch.optim.Optimizer, group: dict[str, Any]) -> dict[str, Any]:
    """What a step that is traced uses in place of a group's options."""
    adam = isinstance(optimizer, torch.optim.Adam)  # its fused form counts its steps in a tensor
    chosen = {"foreach": False, "fused": adam, "differentiable": False}
    chosen["capturable"] = isinstance(optimizer, _CAPTURABLE)
    found: dict[str, Any] = {name: value for name, value in chosen.items() if name in group}
    for name, value in group.items():
        if isinstance(value, torch.Tensor):
            found[name] = value.item()
        elif isinstance(value, (tuple, list)) and name != "params":
            found[name] = tuple(v.item() if isinstance(v, torch.Tensor) else v for v in value)
    return found


def update(
    optimizer: Any,
    leaves: Sequence[torch.Tensor],
    gradients: Sequence[torch.Tensor | None],
    states: Sequence[dict[str, torch.Tensor]],
) -> None:
    """A step of the optimizer on these tensors, in place. A parameter without a gradient keeps its value."""
    given: dict[torch.Tensor, dict[str, torch.Tensor]] = {}
    exact = torch.float32 if isinstance(optimizer, torch.optim.Adam) else torch.float64  # as Python's numbers are
    for leaf, gradient, state in zip(leaves, gradients, states, strict=True):
        leaf.grad = gradient
        given[leaf] = dict(state)
        if "step" in state:
            given[leaf]["step"] = state["step"].to(exact)
    try:
        with _working_on(optimizer, leaves, given), _numbers_as_tensors():
            optimizer.step()
    except Exception as error:  # whatever a step does that a graph cannot
        text = str(error).strip().splitlines()
        raise refusal(optimizer, text[0] if text else type(error).__name__) from error
    for gradient, state in zip(gradients, states):
        if "step" in state and gradient is not None:
            state["step"].add_(1)


@contextmanager
def _working_on(optimizer: Any, leaves: Sequence[torch.Tensor], states: dict) -> Iterator[None]:
    kept, groups = optimizer.state, [dict(group) for group in optimizer.param_groups]
    rest = iter(leaves)
    try:
        for group in optimizer.param_groups:
            group["params"] = [next(rest) for _ in group["params"]]
            group.update(_options(optimizer, group))
        optimizer.state = states
        yield
    finally:
        optimizer.state = kept
        for group, before in zip(optimizer.param_groups, groups):
            group.update(before)


@contextmanager
def _numbers_as_tensors() -> Iterator[None]:
    """Reads of tensors as numbers give tensors, and ops that take numbers take them."""
    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(torch.compiler, "is_compiling", lambda: True))
        for name, bound in (("max", torch.clamp_min), ("min", torch.clamp_max)):
            stack.enter_context(mock.patch.object(_adafactor, name, _bounded(name, bound), create=True))
        stack.enter_context(_Numbers())
        yield


def _bounded(name: str, bound: Callable) -> Callable:
    """max or min of two numbers, of which one may be a tensor."""

    def of_two(a: Any, b: Any) -> Any:
        if isinstance(a, torch.Tensor):
            a, b = b, a
        return bound(b, a) if isinstance(b, torch.Tensor) else getattr(builtins, name)(a, b)

    return of_two


class _Numbers(TorchFunctionMode):
    """Numbers that are tensors without dimensions, as arguments of ops in place that take Python's only. Formulas and
    their order are those of the ops."""

    def __torch_function__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        kwargs = kwargs or {}
        if func is torch.Tensor.item:
            return args[0].double()
        number = kwargs.get("value", kwargs.get("alpha"))
        if isinstance(number, torch.Tensor) and func in (torch.Tensor.addcdiv_, torch.Tensor.addcmul_):
            tensor, a, b = args
            return tensor.add_(a * number / b if func is torch.Tensor.addcdiv_ else a * number * b)
        if isinstance(number, torch.Tensor) and func is torch.Tensor.add_:
            return args[0].add_(args[1] * number)
        if func is torch.Tensor.lerp_ and isinstance(args[2], torch.Tensor) and args[2].dim() == 0:
            tensor, end, weight = args
            near = tensor + (end - tensor) * weight
            return tensor.copy_(torch.where(weight < 0.5, near, end - (end - tensor) * (1 - weight)))
        return func(*args, **kwargs)


def _adam(decoupled: bool) -> Callable:
    """_fused_adam_ and _fused_adamw_, as csrc/sim/kernels/training/optimizer.h has them, in float32. A power of beta
    that is subtracted from 1 is computed by expm1, which does not cancel."""

    def step(params, grads, averages, squares, largest, steps, *, lr, beta1, beta2, weight_decay, eps, amsgrad,  # type: ignore[no-untyped-def]
             maximize, grad_scale=None, found_inf=None):  # fmt: skip
        if grad_scale is not None or found_inf is not None:
            raise ValueError("a scaled gradient; expected a step without a GradScaler")
        for i, (p, grad, average, square, count) in enumerate(zip(params, grads, averages, squares, steps)):
            value, g = p.float(), grad.float()
            g = -g if maximize else g
            if decoupled:
                value = value * (1 - lr * weight_decay)
            else:
                g = g + value * weight_decay
            m = average.float() * beta1 + g * (1 - beta1)
            v = square.float() * beta2 + g * g * (1 - beta2)
            average.copy_(m)
            square.copy_(v)
            if amsgrad:
                v = torch.maximum(largest[i].float(), v)
                largest[i].copy_(v)
            size, root = (-torch.expm1(count * log(beta)) if beta else 1.0 for beta in (beta1, beta2))
            p.copy_(value - m * (lr / size) / ((v / root).sqrt() + eps))

    return step


FUSED_STEPS: dict[torch._ops.OpOverload, Callable] = {
    aten._fused_adam_.default: _adam(False),
    aten._fused_adamw_.default: _adam(True),
}
