# A fallback segment of assertions alone ended in an AssertionError.
import torch
import torch.nn.functional as F

CHECKS = ("exact", "fast")


class M(torch.nn.Module):
    def forward(self, x11):
        v12 = F.one_hot(x11.long().clamp(0, 4), 5)
        v14 = torch.count_nonzero(v12)
        return (v14,)


args = (torch.randint(-4, 9, ()).to(torch.int32),)
