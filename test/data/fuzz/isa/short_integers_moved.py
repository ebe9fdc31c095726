# Chip code copied integers of 8 and 16 bits, which it keeps as 32 bits, as if they had 16.
import torch

CHECKS = ("isa", "code")


class M(torch.nn.Module):
    def forward(self, x, y, z):
        return x.view(4, 1, 1, 1), torch.tile(y, (2,)), z.t().contiguous(), x


args = (
    torch.randint(1, 5, (4, 1, 1)).to(torch.uint8),
    torch.randint(1, 5, (1, 31)).to(torch.uint8).expand((6, 31)),
    torch.randint(-5, 5, (7, 40)).to(torch.int16),
)
