# A copy to another layout was removed, and the sum took another order.
import torch

CHECKS = ("exact",)


class M(torch.nn.Module):
    def forward(self, x2):
        v3 = x2.contiguous(memory_format=torch.channels_last)
        v4 = v3.sum()
        return (v4,)


args = (
    torch.randn(
        (
            8,
            32,
            3,
            8,
        )
    ),
)
