# Chip code read in front of the tensor where an index counts from the end.
import torch

CHECKS = ("isa",)


class M(torch.nn.Module):
    def forward(self, x, index):
        return (x[index],)


args = (torch.randn(10, 40), torch.tensor([0, -1, 3, -10, 9]))
