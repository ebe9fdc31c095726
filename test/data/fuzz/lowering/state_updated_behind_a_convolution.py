# fast: PlanError in verify_plan.py:verify_plan
import torch
import torch.nn.functional as F

CHECKS = ("eager", "fast")


class M(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w38 = torch.nn.Parameter(torch.randn((2, 1, 1, 2, 1)) * 0.3)
        self.register_buffer("b21", torch.randn((8, 8, 2, 8)))
        self.register_buffer("b40", torch.randn((2, 1, 16, 4, 8)))

    def forward(self, x1, x10, x31, x37, x47, x49, x51):
        v2 = torch.ops.aten.sign.default(x1)
        v5 = F.celu(v2)
        v7 = v5.mean()
        v12 = torch.ops.aten.log1p.default(x10)
        v14 = F.pad(v12, (1, 0, 0, 1), mode="circular")
        v15, v16 = F.max_pool2d(v12, 1, 3, return_indices=True)
        v17 = torch.ops.aten.bitwise_and.Scalar_Tensor(3, v16)
        v20 = torch.linalg.vector_norm(v15, float("inf"), -1)
        self.b21[..., :1].copy_(v12[..., -1:])
        _v32, v33 = ((x31 > 0).any(), (x31 > -9).all())
        v39 = F.conv_transpose3d(x37, self.w38, None, stride=1, padding=0, output_padding=0, groups=1, dilation=2)
        self.b40.mul_(0.5).add_(v39, alpha=0.5)
        v41 = v39.masked_fill(v33, 3)
        v43 = torch.fft.irfft(torch.fft.rfft(v41), n=v41.shape[-1])
        v44 = torch.ops.aten.sign.default(v43)
        v48 = torch.linalg.vector_norm(x47, float("inf"), -1)
        v50 = torch.ops.aten.sigmoid_backward.default(v48, x49)
        v52 = x51.reshape(-1)
        v53 = torch.ops.aten.special_scaled_modified_bessel_k1.default(v52)
        return (
            v14,
            v50,
            v50,
            v53,
            v44,
            v17,
            v7,
            v20,
        )


args = (
    torch.randn((8, 8, 2, 8)),
    torch.randn((8, 8, 2, 8)),
    torch.randn((8, 16)),
    torch.randn((2, 2, 16, 2, 8)).masked_fill(torch.rand((2, 2, 16, 2, 8)) > 0.9, float("-inf")),
    torch.randn((1, 8)).expand((16, 8)),
    torch.randn((1,)),
    torch.randint(1, 5, ()).to(torch.uint8),
)
