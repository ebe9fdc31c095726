# eager: layout: strides (96, 6, 2, 1), expected (6, 12, 2, 1)
import torch
import torch.nn.functional as F

CHECKS = ("eager",)


class M(torch.nn.Module):
    def forward(self, x, mask):
        return (F.scaled_dot_product_attention(x, x, x, mask),)


args = (
    torch.randn((16, 2, 3, 2)).transpose(0, 1),
    torch.randn((3, 1)).expand((3, 3)),
)
