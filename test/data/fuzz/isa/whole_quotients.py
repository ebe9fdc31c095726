# Chip code divided by a product with the reciprocal: x % x was x, and 6 // 3 was 1.
import torch

CHECKS = ("isa", "code")


class M(torch.nn.Module):
    def forward(self, x, y, z):
        return torch.fmod(x, x), x % x, y // z, torch.div(y, z, rounding_mode="trunc"), x % 0.1, y // float("inf")


args = (
    torch.randn(33),
    torch.arange(-40.0, 40.0),
    torch.randint(1, 9, (80,)).float(),
)
