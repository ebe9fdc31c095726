# SPDX-License-Identifier: BSD-3-Clause
"""A small U-Net: one training step on DDPM noise, then `DDIMPipeline` from a generator on the CPU"""

import torch
from diffusers import DDIMPipeline, DDIMScheduler, DDPMScheduler, UNet2DModel

from benchmarks.libraries import joined

DISTRIBUTION = "diffusers"


def run(device: str) -> list[torch.Tensor]:
    model = UNet2DModel(
        sample_size=16, in_channels=3, out_channels=3, layers_per_block=1, block_out_channels=(16, 32),
        norm_num_groups=8, down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        attention_head_dim=8,
    ).to(device)  # fmt: skip
    images, noise = torch.rand(2, 3, 16, 16).to(device), torch.randn(2, 3, 16, 16).to(device)
    times = torch.tensor([10, 500], device=device)
    noisy = DDPMScheduler(num_train_timesteps=1000).add_noise(images, noise, times)
    loss = torch.nn.functional.mse_loss(model(noisy, times, return_dict=False)[0], noise)
    loss.backward()
    gradients = joined(p.grad for p in model.parameters())
    pipeline = DDIMPipeline(model.eval(), DDIMScheduler(num_train_timesteps=1000)).to(device)
    pipeline.set_progress_bar_config(disable=True)
    generator = torch.Generator("cpu").manual_seed(0)
    pictures = pipeline(batch_size=2, generator=generator, num_inference_steps=4, output_type="np").images
    return [loss.detach(), gradients, torch.from_numpy(pictures)]
