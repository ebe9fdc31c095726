# isa: Unsupported in network.py:element_bytes: dtype complex64
import torch

CHECKS = ("eager", "isa", "code")


class M(torch.nn.Module):
    def forward(self, x):
        y = x - torch.full(x.shape, 0.25, device=x.device)
        return torch.complex(y, y).real + torch.complex(y, y).imag


args = (torch.randn(1, 1, 7).to(torch.bfloat16),)
