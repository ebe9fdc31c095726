# SPDX-License-Identifier: BSD-3-Clause
"""The training loop of its quicktour: `prepare`, `backward`, gradient accumulation and clipping"""

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.libraries import joined

DISTRIBUTION = "accelerate"


def run(device: str) -> list[torch.Tensor]:
    AcceleratorState._reset_state(reset_partial_state=True)
    accelerator = Accelerator(cpu=device == "cpu", gradient_accumulation_steps=2)
    assert accelerator.device.type == device
    model = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Linear(64, 4))
    data = DataLoader(TensorDataset(torch.randn(128, 16), torch.randint(4, (128,))), batch_size=16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    model, optimizer, data = accelerator.prepare(model, optimizer, data)
    losses = []
    for inputs, targets in data:
        with accelerator.accumulate(model):
            loss = nn.functional.cross_entropy(model(inputs), targets)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        losses.append(accelerator.gather(loss.detach()))
    AcceleratorState._reset_state(reset_partial_state=True)
    return [torch.stack([x.flatten()[0] for x in losses]), joined(model.parameters())]
