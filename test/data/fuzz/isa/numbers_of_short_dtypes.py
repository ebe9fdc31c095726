# Chip code compared 8-bit integers with a number that had not wrapped: as an unsigned one, -2 is 254.
import torch

CHECKS = ("isa", "code")


class M(torch.nn.Module):
    def forward(self, x, y):
        return x < -2, x == -1, y > 127


args = (
    torch.randint(1, 5, (9,)).to(torch.uint8),
    torch.randint(-5, 5, (9,)).to(torch.int8),
)
