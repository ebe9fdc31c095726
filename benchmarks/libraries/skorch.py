# SPDX-License-Identifier: BSD-3-Clause
"""`NeuralNetClassifier` of its README: `fit` and `predict_proba` on numpy arrays, in a scikit-learn pipeline"""

import numpy as np
import torch
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from skorch import NeuralNetClassifier
from torch import nn

DISTRIBUTION = "skorch"


class MyModule(nn.Module):
    def __init__(self, num_units: int = 10) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(20, num_units), nn.ReLU(), nn.Linear(num_units, 2), nn.Softmax(-1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)


def run(device: str) -> list[torch.Tensor]:
    x = torch.randn(100, 20).numpy()
    y = (x.sum(1) > 0).astype(np.int64)
    net = NeuralNetClassifier(MyModule, max_epochs=3, lr=0.1, batch_size=25, device=device, verbose=0)
    pipeline = Pipeline([("scale", StandardScaler()), ("net", net)]).fit(x, y)
    losses = torch.tensor(net.history[:, "train_loss"])
    return [losses, torch.from_numpy(pipeline.predict_proba(x))]
