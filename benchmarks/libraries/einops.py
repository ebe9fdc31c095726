# SPDX-License-Identifier: BSD-3-Clause
"""Its tutorial: `rearrange`, `reduce`, `repeat`, `einsum`, `pack` and the layers, with a gradient"""

import torch
from einops import einsum, pack, rearrange, reduce, repeat
from einops.layers.torch import EinMix, Rearrange, Reduce

DISTRIBUTION = "einops"


def run(device: str) -> list[torch.Tensor]:
    images = torch.randn(6, 3, 32, 32).to(device).requires_grad_()
    patches = rearrange(images, "b c (h p) (w q) -> b (h w) (p q c)", p=8, q=8)
    layers = torch.nn.Sequential(
        EinMix("b t i -> b t o", weight_shape="i o", bias_shape="o", i=192, o=24),
        Rearrange("b (h w) c -> b c h w", h=4),
        Reduce("b c (h 2) (w 2) -> b c h w", "max"),
    ).to(device)
    joined, _ = pack([images[0], images[:, 0, 0]], "* w")
    results = [
        patches, layers(patches), joined, reduce(images, "b c (h 4) (w 4) -> b c h w", "mean"),
        repeat(images, "b c h w -> b c (h 2) (w 2)"), einsum(patches, patches, "b i c, b j c -> b i j"),
        rearrange(images, "(b1 b2) c h w -> (b1 h) (b2 w) c", b1=2),
    ]  # fmt: skip
    sum(x.square().mean() for x in results).backward()
    return [*(x.detach() for x in results), images.grad]
