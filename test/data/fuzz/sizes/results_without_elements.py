# isa: RuntimeLibraryError: method 'forward' has only Atalla code; use the engine isa
import torch

CHECKS = ("isa", "code")


class M(torch.nn.Module):
    def forward(self, x):
        return (*torch.sort(x), torch.diff(x[:, :1]))


args = (torch.randn((3, 0)),)
