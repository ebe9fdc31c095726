# exact: layout: strides (33, 33, 1), expected (33, 1, 1): without mutation, mul has other strides than mul_
import torch

CHECKS = ("exact",)


class M(torch.nn.Module):
    def forward(self, x):
        y = x.double()
        y.mul_(0.5)
        return (y,)


args = (torch.randn((16, 1, 33)).as_strided((16, 1, 33), (33, 1, 1)),)
