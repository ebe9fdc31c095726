# isa: check: node addbmm: 3 of 4 elements differ: nan, expected -0.0620117: limits of products and convolutions
import torch
import torch.nn.functional as F

CHECKS = ("isa",)


class M(torch.nn.Module):
    def forward(self, x, y, z, image, weight):
        products = torch.addbmm(z, x, y), torch.baddbmm(z, x, y).relu(), y.mT @ y, x[0] @ y[0]
        heads = y.view(1, 7, 33, 40).narrow(1, 0, 2)
        groups = F.scaled_dot_product_attention(heads.repeat(1, 2, 1, 1), heads, heads, enable_gqa=True)
        return (*products, F.scaled_dot_product_attention(y, y, y), groups, F.conv2d(image, weight))


infinite = torch.randn(7, 33, 40).masked_fill(torch.rand(7, 33, 40) > 0.999, -torch.inf)
image = torch.randn(2, 20, 7, 7).masked_fill(torch.rand(2, 20, 7, 7) > 0.998, torch.inf)
args = (torch.randn(7, 5, 33), infinite, torch.randn(5, 40), image, torch.randn(3, 20, 3, 3))
