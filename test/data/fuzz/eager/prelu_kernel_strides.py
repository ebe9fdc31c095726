# eager: layout: strides (32, 32, 1), expected (32, 1, 1)
import torch

CHECKS = ("eager",)


class M(torch.nn.Module):
    def forward(self, x):
        return (torch.ops.aten._prelu_kernel.default(x, x),)


args = (torch.randn((32, 32, 1)).transpose(-1, -2),)
