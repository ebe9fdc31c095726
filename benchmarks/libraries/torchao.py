# SPDX-License-Identifier: BSD-3-Clause
"""Its quick start: `quantize_` with weights in int8, and with weights and activations in int8"""

import torch
from torch import nn
from torchao.quantization import Int8DynamicActivationInt8WeightConfig, Int8WeightOnlyConfig, quantize_

DISTRIBUTION = "torchao"


def run(device: str) -> list[torch.Tensor]:
    inputs = torch.randn(8, 64).to(device)
    results = []
    for config in (Int8WeightOnlyConfig(), Int8DynamicActivationInt8WeightConfig()):
        model = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 32)).to(device).eval()
        quantize_(model, config)
        with torch.no_grad():
            results.append(model(inputs))
    return results
