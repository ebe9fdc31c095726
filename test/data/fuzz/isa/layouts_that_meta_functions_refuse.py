# Putting channels innermost ended with a RuntimeError where a fused op has operands that its meta function refuses.
import torch
import torch.nn.functional as F

CHECKS = ("isa",)


class M(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(8, 2, 3, 3) * 0.2)

    def forward(self, image, x, mask):
        y = x.to(torch.float32)
        return (F.conv2d(image, self.weight), torch.softmax(y @ y.mT + mask, -1) @ y)


args = (torch.randn(1, 2, 7, 7), torch.randint(-3, 3, (2, 2, 3, 3)), torch.randn(3, 3))
