# isa: check: node _to_copy: 1 of 8 elements differ: 0, expected -2.14748e+09: C++ leaves open what NaN becomes
import torch

CHECKS = ("isa",)


class M(torch.nn.Module):
    def forward(self, x):
        y = x.clamp(-8, 8).to(torch.int32)
        return (y.flip(0), y)


args = (torch.randn(8).masked_fill(torch.rand(8) > 0.6, torch.nan),)
