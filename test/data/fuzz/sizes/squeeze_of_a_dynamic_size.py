# A dimension that squeeze keeps is not 1: such a call has another shape in eager mode, and is refused.
import torch

CHECKS = ("symbols exact", "symbols fast")
DYNAMIC = "nested"
SIZES = (
    {"n": 6, "m": 8},
    {"n": 1, "m": 1},
    {"n": 2, "m": 1},
    {"n": 1, "m": 3},
)
DIMS = (("n", "m", "1", "n + 1"),)


class M(torch.nn.Module):
    def forward(self, x1):
        return (x1.squeeze(), x1.squeeze(1), x1.squeeze((0, 2)))


def arguments(n, m):
    return (torch.randn((n, m, 1, n + 1)),)


args = arguments(**SIZES[0])
