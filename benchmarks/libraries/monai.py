# SPDX-License-Identifier: BSD-3-Clause
"""3D segmentation of its tutorials: `UNet`, `DiceCELoss`, one step, `sliding_window_inference`, `DiceMetric`"""

import torch
from monai.inferers import sliding_window_inference
from monai.losses import DiceCELoss
from monai.metrics import DiceMetric
from monai.networks.nets import UNet

from benchmarks.libraries import joined

DISTRIBUTION = "monai"


def run(device: str) -> list[torch.Tensor]:
    model = UNet(3, in_channels=1, out_channels=2, channels=(8, 16, 32), strides=(2, 2), num_res_units=1).to(device)
    volumes = torch.rand(1, 1, 24, 24, 24).to(device)
    labels = (volumes > 0.5).float()
    loss = DiceCELoss(to_onehot_y=True, softmax=True)(model(volumes), labels)
    loss.backward()
    gradients = joined(p.grad for p in model.parameters())
    model.eval()
    with torch.no_grad():
        logits = sliding_window_inference(volumes, (16, 16, 16), 2, model, overlap=0.25, mode="gaussian")
    chosen = torch.nn.functional.one_hot(logits.argmax(1), 2).movedim(-1, 1)
    metric = DiceMetric(include_background=False)
    metric(y_pred=chosen, y=torch.cat([1 - labels, labels], 1))
    return [loss.detach(), gradients, logits, metric.aggregate()]
