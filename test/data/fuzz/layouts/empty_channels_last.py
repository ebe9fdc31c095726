# The layout of a result without elements was looked for in its memory.
import torch

CHECKS = ("eager", "exact", "fast")


class M(torch.nn.Module):
    def forward(self, x):
        return (x.clone(memory_format=torch.channels_last), x.transpose(0, 1).contiguous())


args = (torch.randn((0, 8, 17, 0)),)
