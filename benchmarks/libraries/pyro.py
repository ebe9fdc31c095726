# SPDX-License-Identifier: BSD-3-Clause
"""Bayesian regression of its tutorial by SVI with `AutoDelta`, which finds the mode and draws no random numbers"""

import pyro
import pyro.distributions as dist
import torch
from pyro.infer import SVI, Trace_ELBO
from pyro.infer.autoguide import AutoDelta
from pyro.optim import Adam

DISTRIBUTION = "pyro-ppl"


def model(x: torch.Tensor, y: torch.Tensor) -> None:
    zero, one = x.new_zeros(3), x.new_ones(3)
    weight = pyro.sample("weight", dist.Normal(zero, one).to_event(1))
    bias = pyro.sample("bias", dist.Normal(x.new_tensor(0.0), 10.0))
    sigma = pyro.sample("sigma", dist.LogNormal(x.new_tensor(0.0), 1.0))
    with pyro.plate("data", len(x)):
        pyro.sample("y", dist.Normal(x @ weight + bias, sigma), obs=y)


def run(device: str) -> list[torch.Tensor]:
    pyro.clear_param_store()
    x = torch.randn(50, 3)
    y = (x @ torch.tensor([1.0, -2.0, 0.5]) + 0.3 + 0.1 * torch.randn(50)).to(device)
    x = x.to(device)
    start = {"weight": x.new_zeros(3), "bias": x.new_tensor(0.0), "sigma": x.new_tensor(1.0)}
    guide = AutoDelta(model, init_loc_fn=pyro.infer.autoguide.initialization.init_to_value(values=start))
    svi = SVI(model, guide, Adam({"lr": 0.05}), loss=Trace_ELBO())
    losses = [svi.step(x, y) for _ in range(20)]
    found = guide.median()
    return [torch.tensor(losses), *(found[name].detach() for name in ("weight", "bias", "sigma"))]
