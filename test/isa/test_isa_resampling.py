# SPDX-License-Identifier: BSD-3-Clause
"""Resampling as Atalla code, against PyTorch."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from chip_op_calls import check_function
from isa_kernels import CodegenTestCase
from torch.testing._internal.common_utils import instantiate_parametrized_tests, parametrize


class TestBytes(CodegenTestCase):
    """Images of 8 bits have fixed-point weights, and are rounded after each pass."""

    @parametrize(
        "sizes,options",
        [
            ((1, 3, 6, 5), {"size": (9, 4), "mode": "bilinear", "align_corners": True}),
            ((2, 3, 7, 6), {"scale_factor": 2, "mode": "bilinear"}),
            ((1, 2, 9, 8), {"size": (4, 9), "mode": "bicubic"}),
            ((1, 2, 5, 8), {"size": (5, 13), "mode": "bicubic", "align_corners": True}),
            ((1, 2, 9, 8), {"size": (4, 3), "mode": "bilinear", "antialias": True}),
            ((1, 2, 9, 8), {"size": (4, 8), "mode": "bicubic", "antialias": True}),
        ],
    )
    def test_bits(self, sizes, options):
        generator = torch.Generator().manual_seed(0)
        image = torch.randint(0, 256, sizes, generator=generator).to(torch.uint8)
        check_function(lambda x: F.interpolate(x, **options), image)


instantiate_parametrized_tests(TestBytes)
