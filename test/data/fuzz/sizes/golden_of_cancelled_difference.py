# A result that is only what rounding left of a difference was compared with a tolerance of its own size.
import torch
import torch.nn.functional as F

CHECKS = ("golden",)


class M(torch.nn.Module):
    def forward(self, x):
        return F.kl_div(x.log_softmax(1), x.softmax(1), reduction="batchmean"), torch.linalg.cross(x, x * 2, dim=1)


args = (torch.randn((7, 3, 8)),)
