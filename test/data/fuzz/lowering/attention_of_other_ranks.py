# Attention that eager mode spells out was one launch in loadables, with other last bits.
import torch
import torch.nn.functional as F

CHECKS = ("exact", "fast")


class M(torch.nn.Module):
    def forward(self, x, y, m):
        return (
            F.scaled_dot_product_attention(x, x, x, is_causal=True),
            F.scaled_dot_product_attention(y, y[:1], y[:1]),
            F.scaled_dot_product_attention(x[0], x[0], x[0], m),
            F.scaled_dot_product_attention(y, y, y, m),
        )


args = (torch.randn(3, 5, 4), torch.randn(2, 3, 5, 4), torch.randn(5, 5))
