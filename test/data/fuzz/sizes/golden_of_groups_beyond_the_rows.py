# golden: RuntimeLibraryError: gemm_grouped: group 1 is [3, 8), out of range for 4: a golden of fewer rows
import torch

CHECKS = ("golden",)
DYNAMIC = "free"


class M(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.randn((2, 16, 8)).to(torch.bfloat16))

    def forward(self, x):
        return (torch._grouped_mm(x, self.w, offs=torch.tensor([3, 8], dtype=torch.int32, device=x.device)),)


args = (torch.randn((8, 16)).to(torch.bfloat16),)
