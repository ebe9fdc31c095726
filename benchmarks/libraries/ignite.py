# SPDX-License-Identifier: BSD-3-Clause
"""Its quickstart: `create_supervised_trainer`, and an evaluator with accuracy and loss after each epoch"""

import torch
from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
from ignite.metrics import Accuracy, Loss
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.libraries import joined

DISTRIBUTION = "pytorch-ignite"


def run(device: str) -> list[torch.Tensor]:
    layers = [
        nn.Conv2d(1, 8, 3, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(32, 4),
    ]
    model = nn.Sequential(*layers).to(device)
    data = DataLoader(TensorDataset(torch.randn(64, 1, 12, 12), torch.randint(4, (64,))), batch_size=16)
    optimizer, criterion = torch.optim.RMSprop(model.parameters(), lr=0.005), nn.CrossEntropyLoss()
    trainer = create_supervised_trainer(model, optimizer, criterion, device)
    metrics = {"accuracy": Accuracy(device=device), "loss": Loss(criterion, device=device)}
    evaluator = create_supervised_evaluator(model, metrics=metrics, device=device)
    found: list[float] = []

    @trainer.on(Events.EPOCH_COMPLETED)
    def evaluate() -> None:
        evaluator.run(data)
        found.extend([evaluator.state.metrics["accuracy"], evaluator.state.metrics["loss"]])

    trainer.run(data, max_epochs=2)
    return [torch.tensor(found), joined(model.parameters())]
