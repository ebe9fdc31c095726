# SPDX-License-Identifier: BSD-3-Clause
"""Its README: `SingleTaskGP`, `fit_gpytorch_mll`, and `optimize_acqf` of a log expected improvement"""

import torch
from botorch.acquisition import LogExpectedImprovement
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf
from gpytorch.mlls import ExactMarginalLogLikelihood

DISTRIBUTION = "botorch"
TOLERANCE = 1e-3  # two optimizers stop where they find it flat


def run(device: str) -> list[torch.Tensor]:
    x = torch.rand(10, 2, dtype=torch.float64).to(device)
    y = 1 - (x - 0.5).norm(dim=-1, keepdim=True)
    model = SingleTaskGP(x, y).to(device)
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    improvement = LogExpectedImprovement(model, best_f=y.max())
    bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64).to(device)
    starts = torch.rand(4, 1, 2, dtype=torch.float64).to(device)
    candidate, value = optimize_acqf(
        improvement, bounds, q=1, num_restarts=4, batch_initial_conditions=starts, options={"maxiter": 50}
    )
    return [model.posterior(x).mean.detach(), candidate, value]
