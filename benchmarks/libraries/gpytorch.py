# SPDX-License-Identifier: BSD-3-Clause
"""Its regression tutorial: an exact Gaussian process, 20 steps of Adam, predictions with their variances"""

import gpytorch
import torch

DISTRIBUTION = "gpytorch"


class ExactGP(gpytorch.models.ExactGP):
    def __init__(self, x: torch.Tensor, y: torch.Tensor, likelihood: gpytorch.likelihoods.GaussianLikelihood) -> None:
        super().__init__(x, y, likelihood)
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

    def forward(self, x: torch.Tensor) -> gpytorch.distributions.MultivariateNormal:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def run(device: str) -> list[torch.Tensor]:
    x = torch.linspace(0, 1, 40, dtype=torch.float64)
    y = (torch.sin(x * 6.283) + 0.2 * torch.randn(40)).to(device)
    x = x.to(device)
    likelihood = gpytorch.likelihoods.GaussianLikelihood().double().to(device)
    model = ExactGP(x, y, likelihood).double().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = -objective(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    model.eval()
    likelihood.eval()
    with torch.no_grad():
        predicted = likelihood(model(torch.linspace(0, 1, 17, dtype=torch.float64).to(device)))
    return [torch.stack(losses), predicted.mean, predicted.variance]
