# Losses that eager mode runs as one kernel and a sum were taken apart.
import torch
import torch.nn.functional as F

CHECKS = ("exact",)


class M(torch.nn.Module):
    def forward(self, x, y):
        losses = [F.smooth_l1_loss(x, y), F.huber_loss(x, y, reduction="none"), F.mse_loss(x, y)]
        return (*losses, F.binary_cross_entropy(x.sigmoid(), y.sigmoid(), weight=y.abs()))


args = (torch.randn((7, 33)), torch.randn((7, 33)))
