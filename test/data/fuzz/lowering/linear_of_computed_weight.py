# A linear layer over a strided input is one product if its weight is a parameter, and a batch of products otherwise.
import torch
import torch.nn.functional as F

CHECKS = ("exact",)


class M(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.randn((1, 9)))
        self.b = torch.nn.Parameter(torch.randn((1,)))

    def forward(self, x):
        return (
            F.linear(x, self.w),
            F.linear(x, self.w * 0.5),
            F.linear(x, self.w, self.b),
            F.linear(x, self.w * 0.5, self.b),
        )


args = (torch.randn((9, 1, 9, 1)).permute([2, 1, 3, 0]),)
