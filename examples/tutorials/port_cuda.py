# SPDX-License-Identifier: BSD-3-Clause
"""Porting a CUDA script: how to replace the name of the device, and how to find calls without a counterpart.

python examples/tutorials/port_cuda.py

`torch.atalla` has the names of `torch.cuda`. docs/reference/cuda-names.md lists them, and those that are absent with a
reason. examples/train_like_cuda.py is a complete training script that was ported in this way.
"""

import re

import torch

import torch_atalla

SCRIPT = """
stream = torch.cuda.Stream()
scaler = torch.amp.GradScaler("cuda")
model = torch.nn.Linear(16, 4).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
with torch.cuda.stream(stream), torch.autocast("cuda", dtype=torch.float16):
    loss = model(torch.ones(8, 16, device="cuda")).square().mean()
torch.cuda.current_stream().wait_stream(stream)
scaler.scale(loss).backward()
scaler.step(optimizer)
scaler.update()
torch.cuda.synchronize()
print(f"loss {loss.item():.3f}, gradient scale {scaler.get_scale():.0f}, on {loss.device}")
"""

torch_atalla.fallback.mode("error")
torch.manual_seed(0)

# 1. Replace the name.
ported = re.sub(r"\bcuda\b", "atalla", SCRIPT)
changed = sum(a != b for a, b in zip(SCRIPT.splitlines(), ported.splitlines()))
print(f"{changed} of {len(SCRIPT.strip().splitlines())} lines changed")

# 2. Look up every name that the script takes from the device module.
names = sorted(set(re.findall(r"torch\.atalla\.(\w+)", ported)))
print("names:", ", ".join(f"{name} {'present' if hasattr(torch.atalla, name) else 'absent'}" for name in names))

# 3. Run it.
exec(ported)
