# Golden outputs were made from contiguous inputs, of which reshape gives a view that the program writes to.
import torch

CHECKS = ("exact", "fast", "golden")


class M(torch.nn.Module):
    def forward(self, x14, v2):
        v3 = v2.reshape(
            (
                6,
                36,
            )
        )
        v3.sigmoid_()
        v15 = torch.softmax(v2 @ v2.mT + x14, -1) @ v2
        return (v15,)


args = (
    torch.randn(
        (
            8,
            8,
        )
    ).to(torch.float16),
    torch.empty_strided(
        (
            3,
            3,
            8,
            3,
        ),
        (72, 1, 9, 3),
    )
    .normal_()
    .to(torch.float16),
)
