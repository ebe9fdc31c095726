# SPDX-License-Identifier: BSD-3-Clause
"""Attributions of a small convolutional network: integrated gradients, saliency, DeepLift, occlusion, GradCAM"""

import torch
from captum.attr import DeepLift, IntegratedGradients, LayerGradCam, Occlusion, Saliency
from torch import nn

DISTRIBUTION = "captum"


def run(device: str) -> list[torch.Tensor]:
    convolution = nn.Conv2d(3, 8, 3, padding=1)
    head = [nn.MaxPool2d(4), nn.Flatten(), nn.Linear(8 * 16, 4)]
    model = nn.Sequential(convolution, nn.ReLU(), *head).to(device).eval()
    images, zeros = torch.rand(2, 3, 16, 16).to(device), torch.zeros(2, 3, 16, 16).to(device)
    found, delta = IntegratedGradients(model).attribute(images, zeros, target=1, return_convergence_delta=True)
    return [
        found.detach(), delta, Saliency(model).attribute(images, target=1),
        DeepLift(model).attribute(images, zeros, target=1).detach(),
        Occlusion(model).attribute(images, sliding_window_shapes=(3, 4, 4), strides=(3, 4, 4), target=1).detach(),
        LayerGradCam(model, convolution).attribute(images, target=1).detach(),
    ]  # fmt: skip
