# SPDX-License-Identifier: BSD-3-Clause
"""Its README: `save_file`, `load_file` and `safe_open` with slices, in float32, bfloat16, int64 and float8"""

import tempfile
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

DISTRIBUTION = "safetensors"


def run(device: str) -> list[torch.Tensor]:
    weights = {
        "weight": torch.randn(64, 32).to(device), "half": torch.randn(5, 7).bfloat16().to(device),
        "tokens": torch.randint(100, (9,)).to(device), "eighth": torch.randn(16).to(torch.float8_e4m3fn).to(device),
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        save_file(weights, path)
        loaded = load_file(path, device=device)
        with safe_open(path, framework="pt", device=device) as file:
            part = file.get_slice("weight")[:, 8:16]
            whole = file.get_tensor("half")
    assert all(x.device.type == device for x in (*loaded.values(), part, whole))
    return [*(x.float() for x in loaded.values()), part, whole.float()]
