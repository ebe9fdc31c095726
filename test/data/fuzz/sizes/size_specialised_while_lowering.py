# exact: RuntimeLibraryError: symbol 1: gives another size of dimension 0 than 20
import torch

CHECKS = ("exact",)
DYNAMIC = "free"


class M(torch.nn.Module):
    def forward(self, x, y):
        return (torch.slice_scatter(x, y, 0, 0, 20, 1),)


args = (
    torch.randn((20, 20)),
    torch.randn((20, 20)),
)
