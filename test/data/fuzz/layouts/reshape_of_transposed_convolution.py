# Golden outputs were made from contiguous inputs, of which reshape gives a view that the program writes to.
import torch
import torch.nn.functional as F

CHECKS = ("exact", "fast", "golden")


class M(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w4 = torch.nn.Parameter((torch.randn((3, 4, 2, 2)) * 0.25).to(torch.float16))

    def forward(self, x3):
        v5 = F.conv_transpose2d(x3, self.w4, None, stride=2, padding=2, output_padding=1, groups=3, dilation=1)
        v6 = v5.select(1, -1)
        v7 = v6.reshape(
            (
                1,
                26,
                1,
                6,
            )
        )
        v7[..., :1] = -1.5
        v22 = torch.mean(v6, (2, 1, 0), keepdim=False)
        return (v22,)


args = (
    torch.randn(
        (
            4,
            3,
            3,
            8,
        )
    )
    .to(torch.float16)
    .to(memory_format=torch.channels_last),
)
