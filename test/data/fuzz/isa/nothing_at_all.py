# code: RuntimeLibraryError: method 'forward' has only Atalla code; use the engine isa
import torch

CHECKS = ("isa", "code")


class M(torch.nn.Module):
    def forward(self):
        return ()


args = ()
