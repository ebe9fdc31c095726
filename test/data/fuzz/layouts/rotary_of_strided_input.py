# The rotary embedding of a strided input was put together in another order of its dimensions, in which softmax adds.
import torch

CHECKS = ("exact",)


class M(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("b", torch.randn((3, 8)))

    def forward(self, x):
        y = x.mT
        return (torch.softmax(y * self.b + torch.cat([-y[..., 4:], y[..., :4]], -1) * self.b, 1),)


args = (torch.randn((3, 12, 8, 3)),)
