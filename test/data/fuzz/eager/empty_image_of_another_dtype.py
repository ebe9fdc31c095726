# isa: RuntimeError in eager: expected scalar type Float but found BFloat16: the CPU does not look at an empty image
import torch
import torch.nn.functional as F

CHECKS = ("eager",)


class M(torch.nn.Module):
    def forward(self, x, y):
        return (F.grid_sample(x, y, align_corners=False),)


args = (torch.randn(4, 0, 1, 1), torch.randn(4, 3, 2, 2).to(torch.bfloat16))
