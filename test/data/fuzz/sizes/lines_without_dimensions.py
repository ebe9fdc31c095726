# isa: refused: no Atalla program for kernel sort: the code generator failed with IndexError: tuple index out of range
import torch

CHECKS = ("isa", "code")


class M(torch.nn.Module):
    def forward(self, x, index):
        return (
            *torch.sort(x),
            *torch.topk(x, 1),
            *torch.kthvalue(x, 1),
            *torch.median(x, 0),
            *torch.mode(x, 0),
            torch.gather(x, 0, index),
            torch.cumsum(x, 0),
        )


args = (torch.tensor(0.75), torch.tensor(0))
