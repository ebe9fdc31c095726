# isa: values: result 0: 2 of 4536 differ, by up to 1: the vector unit rounds the number with which it compares
import torch

CHECKS = ("isa", "code")


class M(torch.nn.Module):
    def forward(self, x):
        up = torch.relu(x)
        return (x == 0.1, x != 0.1, x > 0.1, x < 0.1, x >= 0.1, x <= 0.1, up > 3.4e38, x < -3.4e38)


near = torch.tensor([0.1], dtype=torch.bfloat16)
infinities = torch.tensor([torch.inf, -torch.inf], dtype=torch.bfloat16)
args = (torch.cat([near, near.nextafter(near - 1), near.nextafter(near + 1), infinities]),)
