# exact: index -1 is outside [0, 5): torch.export took index_fill apart into index_copy, which takes no negative index.
import torch

CHECKS = ("exact", "fast", "golden", "isa", "code")


class M(torch.nn.Module):
    def forward(self, x, i):
        return x.index_fill(1, i, 2.5), x.index_fill(0, i, torch.tensor(7.0, device=x.device, dtype=x.dtype))


args = (torch.randn(4, 5), torch.tensor([-1, 2]))
