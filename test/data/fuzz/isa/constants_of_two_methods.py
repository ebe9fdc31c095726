# The constants of a file's second method of chip code began at any byte; loads of words were misaligned.
import torch
import torch.nn.functional as F

CHECKS = ("isa", "code")


class M(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.randn(7))

    def forward(self, x):
        return F.interpolate(x, (2, 3, 2)), x[0, 0, 0, 0] * self.w


args = (torch.randn((2, 1, 7, 5, 7)),)
