# SPDX-License-Identifier: BSD-3-Clause
"""Its README: `make_private`, with gradients per sample that are clipped; without noise, to be compared"""

import torch
from opacus import PrivacyEngine
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.libraries import joined

DISTRIBUTION = "opacus"


def run(device: str) -> list[torch.Tensor]:
    layers = [nn.Conv2d(1, 8, 3), nn.GroupNorm(4, 8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 4)]
    model = nn.Sequential(*layers).to(device)
    data = DataLoader(TensorDataset(torch.randn(32, 1, 8, 8), torch.randint(4, (32,))), batch_size=8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    model, optimizer, data = PrivacyEngine().make_private(
        module=model,
        optimizer=optimizer,
        data_loader=data,
        noise_multiplier=0.0,
        max_grad_norm=1.0,
        poisson_sampling=False,
    )
    losses = []
    for inputs, targets in data:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs.to(device)), targets.to(device))
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return [torch.stack(losses), joined(model.parameters())]
