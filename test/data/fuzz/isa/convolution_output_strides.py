# Chip code wrote the result of a convolution channels last where its output is contiguous.
import torch
import torch.nn.functional as F

CHECKS = ("isa",)


class M(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(2, 4, 3, 3) * 0.167)
        self.bias = torch.nn.Parameter(torch.randn(2))

    def forward(self, x):
        return (F.conv2d(x, self.weight, self.bias, padding=2, groups=2, dilation=2),)


args = (torch.randn(1, 8, 33, 1),)
