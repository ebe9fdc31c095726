# A convolution without channels was launched, and refused by its kernel when the program ran.
import torch
import torch.nn.functional as F

CHECKS = ("eager", "exact", "fast")


class M(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.randn((1, 0, 3, 3)))
        self.b = torch.nn.Parameter(torch.randn((1,)))

    def forward(self, x):
        return (F.silu(F.conv2d(x, self.w, self.b)),)


args = (torch.randn((17, 0, 4, 17)),)
