# isa: KeyError: true_graph_0: a nested graph was taken for a tensor
import torch

CHECKS = ("isa",)


class M(torch.nn.Module):
    def forward(self, x):
        return (torch.cond(x.sum() > 0, lambda a: a * 2, lambda a: a - 1, (x,)),)


args = (torch.randn((3, 4)),)
