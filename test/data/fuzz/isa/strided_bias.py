# Chip code read the weights of norms and the biases of convolutions as if their elements were neighbours.
import torch
import torch.nn.functional as F

CHECKS = ("isa",)


class M(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(8, 8, 3, 3) * 0.1)

    def forward(self, x, image, both):
        norm = F.layer_norm(x, (33,), both[::2], both[1::2])
        return (norm, F.conv2d(image, self.weight, both[:16:2]))


args = (torch.randn(10, 33), torch.randn(1, 8, 7, 7), torch.randn(66))
