# Results whose elements share memory came back contiguous.
import torch

CHECKS = ("exact",)


class M(torch.nn.Module):
    def forward(self, x):
        y = x + 1
        return x[:, :1].expand(x.shape), x.unfold(1, 3, 2), y.unfold(1, 3, 2), y.sum().expand((3, 2))


args = (torch.randn((7, 8)),)
