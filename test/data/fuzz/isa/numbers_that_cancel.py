# isa: check: node ne: 3 of 4805 elements differ: 0, expected 1: rounding decides which sums cancel to 0
import torch
import torch.nn.functional as F

CHECKS = ("isa", "code")


class M(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(31))

    def forward(self, x):
        y = F.layer_norm(x, (31,), self.weight, self.weight)
        truth = y != 0
        return (truth.sum() > 4000, torch.count_nonzero(y, 1))


args = (torch.randn(5, 31, 31),)
