# isa: check: node upsample_bilinear2d: 240 of 3875 elements differ: 0.523438, expected nan: taps of weight 0 count
import torch
import torch.nn.functional as F

CHECKS = ("isa",)


class M(torch.nn.Module):
    def forward(self, x1, x2, x3):
        return (
            F.interpolate(x1, 5, mode="linear"),
            F.interpolate(x1, 9, mode="linear", align_corners=True),
            F.interpolate(x2, (5, 9), mode="bilinear", align_corners=True),
            F.interpolate(x2, (5, 10), mode="bilinear"),
            F.interpolate(x3, (6, 5), mode="bicubic"),
            F.interpolate(x3, scale_factor=1.7, mode="bicubic"),
            F.interpolate(x3, (5, 6), mode="bicubic", align_corners=True),
        )


def with_special_values(*sizes):
    x = torch.randn(sizes)
    x.masked_fill_(torch.rand(sizes) > 0.9, torch.inf).masked_fill_(torch.rand(sizes) > 0.9, torch.nan)
    return x.to(torch.bfloat16)


args = (with_special_values(3, 5, 15), with_special_values(2, 2, 5, 5), with_special_values(2, 2, 6, 4))
