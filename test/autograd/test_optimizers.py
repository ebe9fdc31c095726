# SPDX-License-Identifier: BSD-3-Clause
"""Fused optimizer steps against the CPU's unfused ones, and torch.optim on the device."""

from __future__ import annotations

import pytest
import torch

import torch_atalla
from torch_atalla import telemetry

DEVICE = "atalla"
TOLERANCE = {torch.float16: 4e-3, torch.bfloat16: 3e-2, torch.float32: 2e-6, torch.float64: 1e-12}
OPTIMIZERS = {
    "adam": lambda p, **k: torch.optim.Adam(p, lr=0.02, betas=(0.8, 0.9), weight_decay=0.1, **k),
    "adam, amsgrad, maximize": lambda p, **k: torch.optim.Adam(p, lr=0.02, amsgrad=True, maximize=True, **k),
    "adamw": lambda p, **k: torch.optim.AdamW(p, lr=0.02, weight_decay=0.2, **k),
    "sgd": lambda p, **k: torch.optim.SGD(p, lr=0.1, weight_decay=0.1, **k),
    "sgd, momentum": lambda p, **k: torch.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.3, **k),
    "sgd, nesterov": lambda p, **k: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, maximize=True, **k),
    "adagrad": lambda p, **k: torch.optim.Adagrad(p, lr=0.1, lr_decay=0.05, weight_decay=0.1, **k),
}


@pytest.fixture(autouse=True)
def strict():
    with torch_atalla.fallback.mode("error"):
        yield


def parameters(dtype: torch.dtype) -> tuple[list[torch.Tensor], list[list[torch.Tensor]]]:
    torch.manual_seed(0)
    shapes = [(3, 5), (2000,), (), (0, 4)]
    values = [torch.randn(s, dtype=torch.float64).to(dtype) for s in shapes] + [torch.randn(6, 4).to(dtype).t()]
    return values, [[torch.randn(v.shape, dtype=torch.float64).to(dtype) for v in values] for _ in range(3)]


def train(name: str, values: list, gradients: list, device: str, **options) -> list[torch.Tensor]:
    leaves = [v.to(device).detach().clone().requires_grad_() for v in values]
    optimizer = OPTIMIZERS[name](leaves, **options)
    for step in gradients:
        for leaf, gradient in zip(leaves, step):
            leaf.grad = gradient.to(device)
        optimizer.step()
    return [leaf.detach().cpu() for leaf in leaves]


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_fused(name: str, dtype: torch.dtype) -> None:
    values, gradients = parameters(dtype)
    exact = [v.double() for v in values]
    want = train(name, exact, [[g.double() for g in step] for step in gradients], "cpu", foreach=False)
    for got, expected in zip(train(name, values, gradients, DEVICE, fused=True), want):
        torch.testing.assert_close(got, expected.to(dtype), atol=TOLERANCE[dtype] * 2, rtol=TOLERANCE[dtype] * 2)


@pytest.mark.parametrize("foreach", [True, False])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_not_fused(name: str, foreach: bool) -> None:
    values, gradients = parameters(torch.float32)
    want = train(name, values, gradients, "cpu", foreach=False)
    for got, expected in zip(train(name, values, gradients, DEVICE, foreach=foreach), want):
        torch.testing.assert_close(got, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("op", [torch._fused_adam_, torch._fused_adamw_])
def test_scale_and_found_inf(op) -> None:
    def run(device: str, scale: float, found: float) -> list[torch.Tensor]:
        p, m, v = (torch.full((5,), x, device=device) for x in (1.0, 0.5, 0.25))
        g = torch.arange(5.0, device=device) * scale
        op(
            [p], [g], [m], [v], [], [torch.tensor(3.0, device=device)], lr=torch.tensor(0.1, device=device), beta1=0.9,
            beta2=0.99, weight_decay=0.1, eps=1e-8, amsgrad=False, maximize=False,
            grad_scale=torch.tensor(scale, device=device), found_inf=torch.tensor(found, device=device),
        )  # fmt: skip
        return [t.cpu() for t in (p, g, m, v)]

    for got, want in zip(run(DEVICE, 8.0, 0.0), run("cpu", 8.0, 0.0)):
        torch.testing.assert_close(got, want)
    for got, want in zip(run(DEVICE, 8.0, 1.0), run("cpu", 8.0, 1.0)):
        assert torch.equal(got, want)


def test_one_launch_a_parameter() -> None:
    p = [torch.ones(10, device=DEVICE) for _ in range(3)]
    zeros = [[torch.zeros(10, device=DEVICE) for _ in range(3)] for _ in range(3)]
    step = [torch.ones((), device=DEVICE) for _ in range(3)]
    since = telemetry.launches()[-1].sequence + 1
    torch._fused_adam_(
        p, *zeros, [], step, lr=0.1, beta1=0.9, beta2=0.99, weight_decay=0.0, eps=1e-8, amsgrad=False, maximize=False
    )
    torch.accelerator.synchronize()
    assert [launch.kernel for launch in telemetry.launches(since=since)] == ["optimizer.adam"] * 3


def test_wrong_lists_are_refused() -> None:
    p = [torch.ones(3, device=DEVICE)]
    with pytest.raises(RuntimeError, match="as many gradients"):
        torch._fused_adagrad_(p, p, p, [], lr=0.1, lr_decay=0.0, weight_decay=0.0, eps=1e-8, maximize=False)
