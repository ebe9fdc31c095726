# On several cores: a convolution with one channel of results, a routine of the scalar core, lost its activation.
import torch
import torch.nn.functional as F

CHECKS = ("isa",)


class M(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(4, 1, (3, 1), padding=1)
        self.other = torch.nn.Conv2d(4, 1, 3, padding=1)

    def forward(self, x, y):
        return F.silu(self.conv(x)), torch.relu(self.other(y) + y[:, :1])


args = (
    torch.randn(8, 4, 4, 16),
    torch.randn(8, 4, 4, 16),
)
