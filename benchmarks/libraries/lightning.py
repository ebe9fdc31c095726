# SPDX-License-Identifier: BSD-3-Clause
"""The autoencoder of its README: `LightningModule`, `Trainer.fit` with validation, `Trainer.predict`"""

import logging

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.libraries import joined

DISTRIBUTION = "lightning"


class LitAutoEncoder(L.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(28 * 28, 64), nn.ReLU(), nn.Linear(64, 3))
        self.decoder = nn.Sequential(nn.Linear(3, 64), nn.ReLU(), nn.Linear(64, 28 * 28))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.encoder(x)

    def loss(self, batch: list[torch.Tensor]) -> torch.Tensor:
        x = batch[0].flatten(1)
        return nn.functional.mse_loss(self.decoder(self.encoder(x)), x)

    def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
        loss = self.loss(batch)
        self.log("train_loss", loss, on_epoch=True)
        return loss

    def validation_step(self, batch: list[torch.Tensor], index: int) -> None:
        self.log("valid_loss", self.loss(batch))

    def predict_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
        return self(batch[0].flatten(1))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def run(device: str) -> list[torch.Tensor]:
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    model, data = LitAutoEncoder(), DataLoader(TensorDataset(torch.rand(64, 1, 28, 28)), batch_size=16)
    quiet = dict.fromkeys(("logger", "enable_progress_bar", "enable_model_summary", "enable_checkpointing"), False)
    trainer = L.Trainer(accelerator=device, devices=1, max_epochs=1, **quiet)
    trainer.fit(model, data, data)
    losses = [trainer.callback_metrics[name] for name in ("train_loss", "valid_loss")]
    return [*losses, *trainer.predict(model, data), joined(model.parameters())]
