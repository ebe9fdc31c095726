# The check of chip code took a position of a maximum for wrong where two elements were as good as equal.
import torch
import torch.nn.functional as F

CHECKS = ("isa",)


class M(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(500, 64))

    def forward(self, x):
        return F.linear(x, self.weight).argmax(-1)


args = (torch.randn(601, 64),)
