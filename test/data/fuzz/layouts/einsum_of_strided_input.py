# An input with gaps became contiguous, and the sum took another order.
import torch

CHECKS = ("exact",)


class M(torch.nn.Module):
    def forward(self, x0):
        v5 = torch.einsum("bij,bij->b", x0, x0)
        return (v5,)


args = (
    torch.randn(
        (
            4,
            1,
            18,
        )
    )[..., ::2],
)
