# SPDX-License-Identifier: BSD-3-Clause
"""TrainingStep with each optimizer of torch.optim and each of upstream's option combinations, against the optimizer."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing._internal.common_optimizers import optim_db
from torch.testing._internal.common_utils import TestCase, run_tests

import torch_atalla

FORMS = ("capturable", "foreach", "fused", "differentiable")  # of the same step
REFUSED = {
    "LBFGS": "LBFGS cannot become a training step: it computes the loss several times per step",
    "SparseAdam": "SparseAdam cannot become a training step: it takes sparse gradients",
    "SGD": "SGD cannot become a training step: with dampening its first step differs",
}


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(4, 5, bias=False), nn.Linear(5, 3, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.b(torch.tanh(self.a(x)))


class Halving(torch.optim.Optimizer):
    """An optimizer of a user. factor: what it subtracts of the gradient, in the first step twice as much if `odd`."""

    def __init__(self, params: Any, odd: bool = False):
        super().__init__(params, {"lr": 0.5, "odd": odd})

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["last"] = torch.ones_like(p) if group["odd"] else torch.zeros_like(p)
                p.sub_(p.grad + state["last"], alpha=group["lr"])
                state["last"].copy_(p.grad)


INPUTS = [torch.randn(6, 4, generator=torch.Generator().manual_seed(i)) for i in range(6)]
TARGETS = [torch.randn(6, 3, generator=torch.Generator().manual_seed(9 + i)) for i in range(6)]


def train(model: nn.Module, optimizer: Any, i: int) -> None:
    optimizer.zero_grad()
    F.mse_loss(model(INPUTS[i]), TARGETS[i]).backward()
    optimizer.step()


def pair(kind: Any, options: dict[str, Any], steps: int) -> tuple[Any, Any, nn.Module, Any]:
    """A model with its optimizer, and copies that stay eager, after a number of steps."""
    torch.manual_seed(0)
    model = Net()
    plain = {name: value for name, value in options.items() if name not in FORMS}
    eager = copy.deepcopy(model)
    other = kind(eager.parameters(), **plain)
    for i in range(steps):
        train(eager, other, i)
    model.load_state_dict(eager.state_dict())
    optimizer = kind(model.parameters(), **options)
    if steps:
        optimizer.load_state_dict({**optimizer.state_dict(), "state": copy.deepcopy(other.state_dict()["state"])})
    return model, optimizer, eager, other


class TestTrainingStep(TestCase):
    def check(self, kind: Any, options: dict[str, Any], steps: int) -> None:
        model, optimizer, eager, other = pair(kind, options, steps)
        step = torch_atalla.TrainingStep(model, F.mse_loss, optimizer, (INPUTS[0], TARGETS[0]))
        for i in range(steps, 6):
            step(INPUTS[i], TARGETS[i])
            train(eager, other, i)
        self.assertEqual(step.model_tensors(), eager.state_dict(), rtol=2e-6, atol=1e-7)

    def test_options_of_all_optimizers(self) -> None:
        for info in optim_db:
            kind = info.optim_cls
            for given in info.optim_inputs_func("cpu"):
                options = given.kwargs
                with self.subTest(optimizer=kind.__name__, options=str(options)):
                    if kind.__name__ in ("LBFGS", "SparseAdam") or options.get("dampening"):
                        with self.assertRaisesRegex(ValueError, REFUSED[kind.__name__]):
                            self.check(kind, options, 0)
                    else:
                        self.check(kind, options, 0)
                    if kind.__name__ not in ("LBFGS", "SparseAdam"):
                        self.check(kind, options, 2)

    def test_parameters_without_a_gradient(self) -> None:
        model = Net()
        model.c = nn.Linear(2, 2)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
        step = torch_atalla.TrainingStep(model, F.mse_loss, optimizer, (INPUTS[0], TARGETS[0]))
        step(INPUTS[0], TARGETS[0])
        self.assertEqual(step.model_tensors()["c.weight"], model.c.weight)
        optimizer = torch.optim.Adam(nn.Linear(2, 2).parameters())
        with self.assertRaisesRegex(ValueError, "Adam has parameters that the model does not have"):
            torch_atalla.TrainingStep(model, F.mse_loss, optimizer, (INPUTS[0], TARGETS[0]))

    def test_optimizers_of_users(self) -> None:
        self.check(Halving, {}, 0)
        self.check(Halving, {"odd": True}, 2)
        with self.assertRaisesRegex(ValueError, "Halving cannot become a training step: its steps give other values"):
            self.check(Halving, {"odd": True}, 0)


@pytest.mark.parametrize(
    "kind, options",
    [
        (torch.optim.ASGD, {"lr": 0.1}),
        (torch.optim.Adafactor, {"lr": 0.1}),
        (torch.optim.Adagrad, {"lr": 0.1, "lr_decay": 0.1}),
        (torch.optim.Adam, {"lr": torch.tensor(0.01), "amsgrad": True}),
        (torch.optim.Adamax, {}),
        (torch.optim.Muon, {}),
        (torch.optim.NAdam, {}),
        (torch.optim.RAdam, {"lr": 0.1}),
        (torch.optim.Rprop, {}),
    ],
    ids=lambda item: item.__name__ if isinstance(item, type) else None,
)
def test_loadables(kind: Any, options: dict[str, Any], tmp_path: Any) -> None:
    """Without host calls, and over several steps."""
    model, optimizer, eager, other = pair(kind, options, 0)
    step = torch_atalla.TrainingStep(model, F.mse_loss, optimizer, (INPUTS[0], TARGETS[0]))
    torch_atalla.save_loadable(step, tmp_path / "step.atl", args=(INPUTS[0], TARGETS[0]), fallback="error")
    program = torch_atalla.load_loadable(tmp_path / "step.atl")
    names = dict(zip(step.model_names, step.names))
    for i in range(6):
        program(INPUTS[i].to("atalla"), TARGETS[i].to("atalla"))
        train(eager, other, i)
    for name, tensor in eager.state_dict().items():
        tolerance = {"rtol": 5e-2, "atol": 1e-3} if kind is torch.optim.Muon else {"rtol": 1e-4, "atol": 1e-5}
        torch.testing.assert_close(program.read_state(names[name]), tensor, **tolerance)


if __name__ == "__main__":
    run_tests()
