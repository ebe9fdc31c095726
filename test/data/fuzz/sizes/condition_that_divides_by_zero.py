# Sizes for which a condition divides by zero are refused as other sizes are, and not as a faulty file.
import torch

CHECKS = ("symbols exact",)
DYNAMIC = "nested"
SIZES = (
    {"n": 5, "m": 3},
    {"n": 7, "m": 2},
    {"n": 8, "m": 8},
    {"n": 5, "m": 3},
)
DIMS = (("m", "m", "1"),)


class M(torch.nn.Module):
    def forward(self, x1):
        v2 = x1.narrow(0, x1.shape[0] // 2, x1.shape[0] - x1.shape[0] // 2)
        v3 = v2[1::2]
        return (v3.reshape(-1, v3.shape[-1]),)


def arguments(n, m):
    return (torch.randn((m, m, 1)),)


args = arguments(**SIZES[0])
