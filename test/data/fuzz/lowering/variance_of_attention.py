# Attention was stored in another layout than eager mode"s, and the variance took another order.
import torch
import torch.nn.functional as F

CHECKS = ("exact",)


class M(torch.nn.Module):
    def forward(self, x6, x7):
        v8 = F.scaled_dot_product_attention(x6, x6.flip(-2), x6 * 2, x7)
        v25, v26 = torch.var_mean(v8, (1, 2, 0), correction=0, keepdim=True)
        return (v25,)


args = (
    torch.randn(
        (
            2,
            3,
            4,
            33,
        )
    ),
    torch.randn(
        (
            4,
            4,
        )
    ),
)
