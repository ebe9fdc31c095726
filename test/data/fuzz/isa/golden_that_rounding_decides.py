# code: golden outputs of a remainder that is 0 or as large as its divisor, as the last bit of gelu decides
import torch

CHECKS = ("eager", "exact", "isa", "code", "sizes")


class M(torch.nn.Module):
    def forward(self, x1):
        v2 = torch.ops.aten.gelu.default(x1, approximate="tanh")
        v3 = torch.ops.aten.remainder.Tensor(v2, x1)
        return (v3,)


args = (torch.randn((3, 3, 1, 9)),)
