# Empty buffers share an address, which is no reason to say that a result lies over its input.
import torch

CHECKS = ("exact", "golden")


class M(torch.nn.Module):
    def forward(self, x):
        return (torch.topk(x.acosh(), 1, 0)[1],)


args = (torch.randn((3, 0, 0)),)
