# exact: index -1 is out of bounds [0, 5): torch.export decomposes index_fill into index_copy, which takes no negatives.
import torch

CHECKS = ("exact", "fast", "golden", "isa", "code")


class M(torch.nn.Module):
    def forward(self, x, i):
        return x.index_fill(1, i, 2.5), x.index_fill(0, i, torch.tensor(7.0, device=x.device, dtype=x.dtype))


args = (torch.randn(4, 5), torch.tensor([-1, 2]))
