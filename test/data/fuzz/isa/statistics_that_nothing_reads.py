# isa: check: node getitem_1: 513 of 528 elements differ: memory of a result that nothing reads is used again
import torch
import torch.nn.functional as F

CHECKS = ("isa",)


class M(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(8))

    def forward(self, x):
        y, mean, _ = torch.native_layer_norm(x, (8,), self.weight, None, 1e-5)
        return (F.pad(mean, (1, -1), value=0.5), y)


args = (torch.randn(2, 8, 33, 8),)
