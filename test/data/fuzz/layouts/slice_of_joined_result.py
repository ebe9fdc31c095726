# A joined launch read a slice of a value that it did not store.
import torch
import torch.nn.functional as F

CHECKS = ("exact",)


class M(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w3 = torch.nn.Parameter(torch.randn((3,)) * 1.0)

    def forward(self, x0):
        v4 = F.rms_norm(x0, (x0.shape[-1],), self.w3)
        v5 = v4.narrow(-1, 0, 1)
        v7 = v4 - v5
        return (v7,)


args = (torch.randn((3,)),)
