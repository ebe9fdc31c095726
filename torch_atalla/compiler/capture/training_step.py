# SPDX-License-Identifier: BSD-3-Clause
"""A training step as a module that torch.export takes: the loss, its gradients and the update of an optimizer."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import log
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.attention import SDPBackend, sdpa_kernel

aten = torch.ops.aten


class TrainingStep(torch.nn.Module):
    """One step of `optimizer` on `model`. A call gives the loss before the step.

    The model's parameters and buffers, and the optimizer's states, are copied; the copies are buffers of this module,
    which a call changes in place. `model_tensors` gives those of the model by name, to be loaded into it. Steps are
    counted in integers.

    model: takes all arguments but the last. loss: from the model's result and the last argument to one value. args:
    example arguments (inputs..., target), whose sizes the step keeps. Raises ValueError for optimizers whose first step
    differs from the others.

        step = TrainingStep(model, F.cross_entropy, torch.optim.AdamW(model.parameters()), (x, y))
        torch_atalla.save_loadable(step, "step.atl", args=(x, y), engine="isa")
    """

    def __init__(
        self,
        model: torch.nn.Module,
        loss: Callable[[Any, torch.Tensor], torch.Tensor],
        optimizer: torch.optim.Optimizer,
        args: tuple[torch.Tensor, ...],
    ) -> None:
        super().__init__()
        held = dict([*model.named_parameters(), *model.named_buffers()])
        names = {id(tensor): name for name, tensor in held.items()}
        trained = [names[id(p)] for group in optimizer.param_groups for p in group["params"]]
        states = _states(optimizer)
        self.model_names = list(held)
        self.names: list[str] = []
        for tensor in [*held.values(), *(value for state in states for value in state.values())]:
            self.names.append(f"value{len(self.names)}")
            self.register_buffer(self.names[-1], tensor.detach().clone())

        def step(values: list[torch.Tensor], *args: torch.Tensor) -> torch.Tensor:
            tensors = dict(zip(held, values))
            leaves = [tensors[name].detach().requires_grad_() for name in trained]
            tensors |= dict(zip(trained, leaves))
            with torch.enable_grad(), sdpa_kernel(SDPBackend.MATH):
                result = loss(torch.func.functional_call(model, tensors, args[:-1]), args[-1])
                gradients = torch.autograd.grad(result, leaves)
            rest = iter(values[len(held) :])
            _update(optimizer, leaves, gradients, [{name: next(rest) for name in state} for state in states])
            return result.detach()

        self.traced = make_fx(step, tracing_mode="fake", decomposition_table=_STEPS)(self._values(), *args)

    def _values(self) -> list[torch.Tensor]:
        return [getattr(self, name) for name in self.names]

    def model_tensors(self) -> dict[str, torch.Tensor]:
        """The parameters and buffers of the model, as its `load_state_dict` takes them."""
        return dict(zip(self.model_names, self._values()))

    def forward(self, *args: torch.Tensor) -> torch.Tensor:
        return self.traced(self._values(), *args)


def _states(optimizer: torch.optim.Optimizer) -> list[dict[str, torch.Tensor]]:
    """The tensors of each parameter's state; before the first step, those that a step without an effect leaves."""
    first = not optimizer.state
    if first:
        optimizer = copy.deepcopy(optimizer)
    found = []
    for group in optimizer.param_groups:
        if first:
            if group.get("dampening"):
                raise ValueError("dampening, which the first step does not have; take that step before")
            group |= {"lr": 0.0, "weight_decay": 0.0}
            for p in group["params"]:
                p.grad = torch.zeros_like(p)
    if first:
        optimizer.step()
    for group in optimizer.param_groups:
        for p in group["params"]:
            state = {name: v for name, v in optimizer.state[p].items() if isinstance(v, torch.Tensor)}
            if "step" in state:
                state["step"] = torch.zeros_like(state["step"]) if first else state["step"]
                state["step"] = state["step"].to(torch.int64)
            found.append(state)
    return found


def _update(
    optimizer: Any,
    leaves: Sequence[torch.Tensor],
    gradients: Sequence[torch.Tensor],
    states: Sequence[dict[str, torch.Tensor]],
) -> None:
    """A step of the optimizer on these tensors."""
    given: dict[torch.Tensor, dict[str, torch.Tensor]] = {}
    for leaf, gradient, state in zip(leaves, gradients, states, strict=True):
        leaf.grad = gradient
        given[leaf] = dict(state)
        if "step" in state:
            given[leaf]["step"] = state["step"].float()
    with _working_on(optimizer, leaves, given):
        optimizer.step()
    for state in states:
        if "step" in state:
            state["step"].add_(1)


@contextmanager
def _working_on(optimizer: Any, leaves: Sequence[torch.Tensor], states: dict) -> Iterator[None]:
    kept, groups = optimizer.state, [dict(group) for group in optimizer.param_groups]
    rest = iter(leaves)
    try:
        for group in optimizer.param_groups:
            group["params"] = [next(rest) for _ in group["params"]]
            group["foreach"] = False
            if "betas" in group and "fused" in group:  # counts its steps in a tensor
                group["fused"] = True
        optimizer.state = states
        yield
    finally:
        optimizer.state = kept
        for group, before in zip(optimizer.param_groups, groups):
            group.update(before)


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


_STEPS: dict[torch._ops.OpOverload, Callable] = {
    aten._fused_adam_.default: _adam(False),
    aten._fused_adamw_.default: _adam(True),
}
