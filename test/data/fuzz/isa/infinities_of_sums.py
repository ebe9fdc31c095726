# An infinity in one column of chip code's sums over rows reached all columns of the tile.
import torch
import torch.nn.functional as F

CHECKS = ("isa", "code")


class M(torch.nn.Module):
    def forward(self, x, z):
        return x.sum(0), x.mean(0), F.avg_pool2d(z, 2)


args = (
    torch.randn((20, 40)).masked_fill(torch.rand((20, 40)) > 0.98, float("inf")),
    torch.randn((2, 40, 6, 6))
    .masked_fill(torch.rand((2, 40, 6, 6)) > 0.99, float("-inf"))
    .to(memory_format=torch.channels_last),
)
