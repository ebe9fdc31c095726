# Chip code wrote the result of an attention that was found in its parts with heads inside positions.
import torch

CHECKS = ("isa",)


class M(torch.nn.Module):
    def forward(self, x):
        return (((x @ x.transpose(-2, -1)) / 2.0).softmax(-1) @ x,)


args = (torch.randn(1, 64, 3, 3),)
