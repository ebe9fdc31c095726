# Ops that eager mode composes were taken apart in another way: other last bits, an integer for a truth value.
import torch
import torch.nn.functional as F

CHECKS = ("exact", "fast")


class M(torch.nn.Module):
    def forward(self, theta, vector, matrix, mask, heads, keep):
        return (
            F.affine_grid(theta, (4, 1, 3, 2), align_corners=False),
            F.affine_grid(theta, (4, 1, 1, 5), align_corners=True),
            torch.addr(matrix, vector, vector),
            torch.select_scatter(mask, mask.select(0, 0) * 2, 0, 0),
            F.scaled_dot_product_attention(heads, heads, heads, keep),
        )


args = (
    torch.randn((4, 2, 3)),
    torch.randn((7,)).to(torch.bfloat16),
    torch.randn((7, 7)).to(torch.bfloat16),
    (torch.rand((7, 1, 7)) > 0.4),
    torch.randn((5, 3, 3)),
    torch.ones(3, 3, dtype=torch.bool).tril(),
)
