# An empty result with gaps has no negative storage. A size of -1, where eager mode has 0, is refused.
import torch

CHECKS = ("symbols exact", "symbols fast")
DYNAMIC = "nested"
SIZES = (
    {"n": 5, "m": 3},
    {"n": 0, "m": 4},
    {"n": 1, "m": 0},
    {"n": 0, "m": 0},
)
DIMS = (("n", "n", "m"), ("n", "8"))


class M(torch.nn.Module):
    def forward(self, x1, x2):
        return (x1[..., 1:], x2[:, 1:4], x2.unsqueeze(-1)[..., 0][:, ::2])


def arguments(n, m):
    return (torch.randn((n, n, m)), torch.randn((n, 8)))


args = arguments(**SIZES[0])
