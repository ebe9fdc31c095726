# Norms that eager mode runs as one kernel were taken apart.
import torch
import torch.nn.functional as F

CHECKS = ("exact",)
DYNAMIC = "free"


class M(torch.nn.Module):
    def forward(self, x):
        return x.norm(), F.normalize(x), x.norm(1, dim=1), torch.linalg.vector_norm(x, 3, dim=2)


args = (torch.randn((7, 4, 50)),)
