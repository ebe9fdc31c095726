# Maxima, minima and max pooling of chip code ignored NaN.
import torch
import torch.nn.functional as F

CHECKS = ("isa", "code")


class M(torch.nn.Module):
    def forward(self, x, y):
        return x.amax(0), x.amin(1), x.argmax(1), torch.maximum(x, y), F.max_pool2d(x[None, None], 3, 2)


args = (
    torch.randn((20, 40)).masked_fill(torch.rand((20, 40)) > 0.95, float("nan")),
    torch.randn((20, 40)).masked_fill(torch.rand((20, 40)) > 0.95, float("nan")),
)
