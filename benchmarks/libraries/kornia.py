# SPDX-License-Identifier: BSD-3-Clause
"""Filters, edges, colors, warps, corners and losses of image batches, and a gradient through a chain of them"""

import kornia
import torch

DISTRIBUTION = "kornia"


def run(device: str) -> list[torch.Tensor]:
    images = torch.rand(2, 3, 48, 64).to(device).requires_grad_()
    gray = kornia.color.rgb_to_grayscale(images)
    angles = torch.tensor([15.0, -30.0], device=device)
    corners = torch.tensor([[[0.0, 0.0], [63.0, 0.0], [63.0, 47.0], [0.0, 47.0]]], device=device).expand(2, -1, -1)
    homography = kornia.geometry.get_perspective_transform(corners, corners + torch.tensor([3.0, 2.0], device=device))
    results = [
        kornia.filters.gaussian_blur2d(images, (5, 5), (1.5, 1.5)),
        kornia.filters.sobel(images),
        kornia.filters.median_blur(images, (3, 3)),
        kornia.filters.bilateral_blur(images, (3, 3), 0.1, (1.5, 1.5)),
        kornia.color.rgb_to_hsv(images),
        kornia.color.rgb_to_lab(images),
        kornia.enhance.adjust_contrast(images, 0.7),
        kornia.enhance.equalize_clahe(images.detach()),
        kornia.geometry.rotate(images, angles),
        kornia.geometry.warp_perspective(images, homography, (48, 64)),
        kornia.geometry.resize(images, (24, 32), antialias=True),
        kornia.feature.harris_response(gray),
        kornia.morphology.dilation(images, torch.ones(3, 3, device=device)),
        kornia.losses.ssim_loss(images, images.detach().flip(-1), 5),
    ]
    loss = kornia.losses.total_variation(results[0]).mean() + results[8].square().mean() + results[-1]
    loss.backward()
    assert images.grad is not None
    edges = kornia.filters.canny(images.detach(), 0.1, 0.2)[1]
    return [*(x.detach() for x in results), edges, images.grad]
