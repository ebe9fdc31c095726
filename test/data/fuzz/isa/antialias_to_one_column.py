# Upstream's antialiased resampling to one column gives its first row everywhere; chip code took its weights from it.
import torch
import torch.nn.functional as F

CHECKS = ("isa", "code")


class M(torch.nn.Module):
    def forward(self, x):
        return F.interpolate(x.float(), (3, 5), mode="bilinear", antialias=True)


args = (torch.randn((1, 2, 7, 5)),)
