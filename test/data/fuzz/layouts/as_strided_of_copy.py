# A copy to another layout was removed although as_strided looks at its memory.
import torch

CHECKS = ("exact", "fast", "golden")


class M(torch.nn.Module):
    def forward(self, x):
        return ((x + 1).t().contiguous().as_strided((2, 3), (3, 1)) * 1,)


args = (torch.randn((3, 4)),)
