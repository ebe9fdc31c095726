# A transposed convolution with an empty result kept the sizes of the example where the batch is dynamic.
import torch
import torch.nn.functional as F

CHECKS = ("eager", "exact")
DYNAMIC = "bounded"


class M(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w37 = torch.nn.Parameter((torch.randn((2, 4, 1, 2, 1)) * 0.3).to(torch.bfloat16))

    def forward(self, x36):
        return (F.conv_transpose3d(x36, self.w37, None, stride=1, padding=1, output_padding=0, groups=1, dilation=2),)


args = (torch.randn((7, 2, 7, 2, 2)).to(torch.bfloat16),)
