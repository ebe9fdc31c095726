# fast: values: far from eager mode (second call): a divergence of equal distributions is what rounding leaves
import torch
import torch.nn.functional as F

CHECKS = ("fast",)


class M(torch.nn.Module):
    def forward(self, x1, x2, x14, x18):
        v10 = torch.amin(x1, dim=-3)
        v12 = F.kl_div(v10.log_softmax(-1), v10.softmax(-1), reduction="sum")
        v17 = torch.fmod(x14, v12)
        v19 = F.scaled_dot_product_attention(v17, v17.flip(-2), v17 * 2, x18)
        return (v19, F.softmin(v19, 0))


args = (
    torch.randn((5, 5, 8)).to(torch.bfloat16),
    torch.randint(-3, 3, (5, 32)) + torch.randint(-3, 3, ()),
    torch.randn((8, 8, 2, 8)).to(torch.bfloat16),
    torch.randn((2, 2)).to(torch.bfloat16),
)
