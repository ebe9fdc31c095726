# The result of padding came back contiguous.
import torch
import torch.nn.functional as F

CHECKS = ("exact", "fast")


class M(torch.nn.Module):
    def forward(self, x1):
        v7 = F.pad(x1, (1, 1, 1, 0), mode="replicate")
        return (v7,)


args = (
    torch.randn(
        (
            4,
            9,
            1,
            3,
        )
    )
    .masked_fill(
        torch.rand(
            (
                4,
                9,
                1,
                3,
            )
        )
        > 0.9,
        float("nan"),
    )
    .to(memory_format=torch.channels_last),
)
