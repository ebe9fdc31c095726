# SPDX-License-Identifier: BSD-3-Clause
"""A training step as a module that torch.export takes: the loss, its gradients and the update of an optimizer."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.attention import SDPBackend, sdpa_kernel

from .optimizer_step import FUSED_STEPS, first_states, refusal, update


class TrainingStep(torch.nn.Module):
    """One step of `optimizer` on `model`. A call gives the loss before the step.

    The model's parameters and buffers, and the optimizer's states, are copied; the copies are buffers of this module,
    which a call changes in place. `model_tensors` gives those of the model by name, to be loaded into it. Steps are
    counted in integers. The options of the optimizer's groups, also those that are tensors, keep their values.

    model: takes all arguments but the last. loss: from the model's result and the last argument to one value. args:
    example arguments (inputs..., target), whose sizes the step keeps. Raises ValueError for an optimizer that is no
    function of parameters, gradients and states alone (LBFGS, SparseAdam), and for SGD with dampening before its first
    step, which differs from the others.

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
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        if not names.keys() >= {id(p) for p in parameters}:
            raise ValueError(f"{type(optimizer).__name__} has parameters that the model does not have")
        trained = [names[id(p)] for p in parameters]
        states = first_states(optimizer)
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
                gradients = torch.autograd.grad(result, leaves, allow_unused=True)
            rest = iter(values[len(held) :])
            update(optimizer, leaves, gradients, [{name: next(rest) for name in state} for state in states])
            return result.detach()

        self.traced = make_fx(step, tracing_mode="fake", decomposition_table=FUSED_STEPS)(self._values(), *args)
        if not type(optimizer).__module__.startswith("torch.optim"):
            self._compare(model, loss, optimizer, args)

    def _compare(self, model: Any, loss: Callable, optimizer: Any, args: tuple[torch.Tensor, ...]) -> None:
        """Two steps against the optimizer itself, for optimizers that this file does not know."""
        kept = [value.clone() for value in self._values()]
        model, optimizer = copy.deepcopy((model, optimizer))
        with torch.random.fork_rng():
            for seed in range(2):
                torch.manual_seed(seed)
                self(*args)
                torch.manual_seed(seed)
                optimizer.zero_grad()
                loss(model(*args[:-1]), args[-1]).backward()
                optimizer.step()
        found, wanted = self.model_tensors(), dict([*model.named_parameters(), *model.named_buffers()])
        for name, tensor in wanted.items():
            if not torch.allclose(found[name], tensor.detach(), rtol=1e-3, atol=1e-5):
                raise refusal(optimizer, f"its steps give other values of {name} than the optimizer itself")
        for value, before in zip(self._values(), kept):
            value.copy_(before)

    def _values(self) -> list[torch.Tensor]:
        return [getattr(self, name) for name in self.names]

    def model_tensors(self) -> dict[str, torch.Tensor]:
        """The parameters and buffers of the model, as its `load_state_dict` takes them."""
        return dict(zip(self.model_names, self._values()))

    def forward(self, *args: torch.Tensor) -> torch.Tensor:
        return self.traced(self._values(), *args)
