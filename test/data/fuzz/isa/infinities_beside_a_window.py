# Chip code of a convolution let infinities into windows that end before them: rows of the array held other pixels.
import torch
import torch.nn.functional as F

CHECKS = ("isa",)


class M(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(3, 3, 1, 3) * 0.333)

    def forward(self, x):
        return (F.conv2d(x, self.weight, padding=2),)


args = (torch.randn(2, 3, 5, 5).masked_fill(torch.rand(2, 3, 5, 5) > 0.9, float("inf")),)
