# The gradient of the grid was NaN where the nearest pixel is NaN; its position has no gradient.
import torch
import torch.nn.functional as F

CHECKS = ("eager", "backward")


class M(torch.nn.Module):
    def forward(self, x, grid):
        return (F.grid_sample(x, grid, mode="nearest", padding_mode="border", align_corners=True),)


args = (torch.randn((2, 3, 4, 5)).masked_fill(torch.rand((2, 3, 4, 5)) > 0.7, float("nan")), torch.randn((2, 3, 2, 2)))
