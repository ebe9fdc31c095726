# The result of group norm came back contiguous.
import torch
import torch.nn.functional as F

CHECKS = ("exact", "fast")


class M(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w7 = torch.nn.Parameter(torch.randn((8,)) * 1.0)
        self.w8 = torch.nn.Parameter(torch.randn((8,)) * 1.0)

    def forward(self, v5):
        v9 = F.group_norm(v5, 4, self.w7, self.w8)
        return (v9,)


args = (
    torch.empty_strided(
        (
            5,
            8,
            2,
            4,
        ),
        (64, 1, 32, 8),
    ).normal_(),
)
