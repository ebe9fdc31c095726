# run: error
import torch
import torch.nn.functional as F

CHECKS = ("eager", "run")


class M(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w3 = torch.nn.Parameter(torch.randn((32,)))

    def forward(self, x1, x6, x7):
        v2 = x1.masked_fill((x1 > 0), 3)
        v4 = F.group_norm(x1, 1, self.w3, None)
        v5 = torch.tril(v4)
        v8 = x6[x7]
        return (
            v8,
            v5,
            v2,
        )


args = (
    torch.randn((5, 32, 32, 0)),
    torch.randn((32,)),
    torch.randint(0, 32, (4,)),
)
