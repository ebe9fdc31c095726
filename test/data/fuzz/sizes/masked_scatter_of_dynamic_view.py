# A view of strides that allow none was taken for one where sizes are symbolic, so elements came in another order.
import torch
import torch.nn.functional as F

CHECKS = ("exact", "fast")
DYNAMIC = "bounded"


class M(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w22 = torch.nn.Parameter(torch.randn((4, 3)) * 0.577)
        self.w23 = torch.nn.Parameter(torch.randn((3,)) * 1.0)

    def forward(self, v29, v21, v18, v14, v13, v10):
        v15 = torch.mm(v10.t(), v10)
        v24 = (v14 @ self.w22 + self.w23).tanh() * -1.5
        v25 = F.hardtanh(v24, -0.5, 1.0)
        v26 = v25.masked_scatter((v25 > 0), v25 * 2)
        return (
            v13,
            v15,
            v18,
            v21,
            v26,
            v29,
        )


args = (
    torch.randn(
        (
            8,
            1,
            2,
            8,
        )
    ),
    torch.randn(
        (
            1,
            1,
            16,
            2,
        )
    ),
    torch.randn(
        (
            4,
            1,
            2,
            4,
        )
    ),
    torch.empty_strided(
        (
            4,
            1,
            2,
            4,
        ),
        (8, 8, 1, 2),
    ).normal_(),
    (
        torch.rand(
            (
                4,
                1,
                5,
                4,
            )
        )
        > 0.4
    ),
    torch.randn(
        (
            7,
            3,
        )
    ),
)
