# SPDX-License-Identifier: BSD-3-Clause
"""A first tensor on the device: the way from an import to a training step, and the cycles of an op.

python examples/tutorials/first_tensor.py

The device registers itself when torch is imported. An op that is not native falls back to the CPU with a warning; this
script forbids that.
"""

import torch

import torch_atalla

torch_atalla.fallback.mode("error")
torch.manual_seed(0)

# A tensor is stored in the chip's simulated DRAM.
x = torch.randn(4, 8, device="atalla")
print(x.device, tuple(x.shape), torch.atalla.memory_allocated(), "bytes allocated")

# Each op is one or more kernel launches. The counters are the same on every machine.
torch_atalla.telemetry.reset()
y = torch.nn.functional.gelu(x @ x.t())
counters = torch_atalla.telemetry.counters()
print(f"gelu(x @ x.t()): {counters.launches} launches, {counters.cycles} cycles, {counters.macs} multiply-adds")

# The values are those of the CPU within rounding.
on_cpu = torch.nn.functional.gelu(x.cpu() @ x.cpu().t())
print("equal to the CPU:", torch.allclose(y.cpu(), on_cpu, rtol=1e-5, atol=1e-6))

# Autograd and optimizers work as on every device.
model = torch.nn.Linear(8, 1).to("atalla")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
target = x.sum(1, keepdim=True)
for step in range(3):
    loss = torch.nn.functional.mse_loss(model(x), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step}: loss {loss.item():.4f}")
