# exact: bits: upstream's decomposition rounds a float16 loss once, eager mode after every op
import torch
import torch.nn.functional as F

CHECKS = ("exact",)


class M(torch.nn.Module):
    def forward(self, x):
        return (F.soft_margin_loss(x, x.sign()),)


args = (torch.randn((4, 3)).to(torch.float16),)
