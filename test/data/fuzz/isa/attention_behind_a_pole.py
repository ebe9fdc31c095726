# isa: check: attention over a value that is next to a pole: the rounding before it decides about whole rows
import torch
import torch.nn.functional as F

CHECKS = ("eager", "backward", "exact", "isa", "sizes")


class M(torch.nn.Module):
    def forward(self, x1, x13, x15):
        v2, v3 = torch.tensor_split(x1, 2, 2)
        v4 = torch.ops.aten.silu.default(x1)
        v5 = torch.ops.aten.sinc.default(v3)
        v9 = v3.reshape(v3.shape[0], -1)
        v10 = torch.ops.aten.tan.default(v4)
        v11 = F.lp_pool2d(v10, 2, 1)
        v12 = ((v11 @ v11.transpose(-2, -1)) / 2.0).softmax(-1) @ v11
        v14 = x13 | x13
        v16, v17 = torch.median(x15, 0)
        v18 = torch.mean(v16, -1, keepdim=True)
        v19 = torch.ops.aten.div.Tensor_mode(v16, v18, rounding_mode="floor")
        return (
            v2,
            v19,
            v12,
            v17,
            v9,
            v5,
            v14,
        )


args = (
    torch.randn((1, 33, 33, 3)).as_strided((1, 33, 33, 3), (3267, 99, 3, 1)),
    torch.randint(0, 5, (2, 33, 1, 33)),
    torch.randn((3, 3)).permute([1, 0]),
)
