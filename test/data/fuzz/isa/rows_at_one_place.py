# Chip code read rows that are one in memory (an expanded tensor's) or that overlap as if they lay behind one another.
import torch
import torch.nn.functional as F

CHECKS = ("isa",)


class M(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(8, 33) * 0.2)

    def forward(self, x, y):
        rows, overlapping = x.expand(40, 33), y.unfold(0, 70, 2)
        column = x[:4, None].expand(4, 9)
        heads = x.expand(2, 1, 40, 33)
        return (
            torch.amax(y[:66].view(2, 33).expand(3, 2, 33), (1, 2)),
            torch.argmax(rows, -1),
            torch.softmax(overlapping, -1),
            overlapping.sum(0),
            F.linear(rows, self.weight),
            y[:8].view(2, 4) @ column,
            F.scaled_dot_product_attention(heads, heads, heads),
        )


args = (torch.randn(33), torch.randn(150))
