# SPDX-License-Identifier: BSD-3-Clause
"""Resampling as Atalla code: linear on the vector unit against float64, 8-bit images against PyTorch."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from chip_op_calls import check_function
from isa_kernels import BF16, CodegenTestCase, bf16, run_launch
from torch.testing._internal.common_utils import instantiate_parametrized_tests, parametrize

from torch_atalla.compiler.targets.chip.select.resample import Run, runs

LAST = torch.channels_last


def bilinear(x, **options):
    """The run of the chip's code, and the values in float64."""
    exact = F.interpolate(x.double(), mode="bilinear", **options)
    factor = options.get("scale_factor")
    parameters = {"align_corners": options.get("align_corners", False), "scale": [0.0, factor or 0.0, factor or 0.0]}
    out = torch.empty_like(exact, dtype=BF16)
    run = run_launch("resample.linear", out.unsqueeze(2), [x.unsqueeze(2)], timing=True, **parameters)
    return run, run.outputs[0].squeeze(2), exact


class TestLinearResampling(CodegenTestCase):
    @parametrize(
        "sizes,options",
        [
            ((1, 3, 6, 5), {"scale_factor": 2.0}),
            ((2, 40, 7, 9), {"scale_factor": 2.0}),
            ((1, 64, 4, 5), {"scale_factor": 4.0}),
            ((1, 33, 2, 2), {"scale_factor": 8.0}),
            ((1, 2, 40, 3), {"scale_factor": 1.5}),
            ((2, 5, 7, 9), {"size": (14, 9)}),
            ((1, 33, 9, 6), {"size": (3, 4)}),
            ((1, 33, 9, 6), {"size": (5, 12)}),
            ((1, 3, 5, 6), {"size": (9, 11), "align_corners": True}),
            ((1, 1, 1, 1), {"scale_factor": 4.0}),
            ((3, 2, 5, 5), {"size": (5, 5)}),
        ],
    )
    def test_sizes(self, sizes, options):
        for x in (bf16(*sizes), bf16(*sizes, seed=1).contiguous(memory_format=LAST)):
            _, found, exact = bilinear(x, **options)
            self.check(found, exact)

    def test_three_dimensions(self):
        x = bf16(1, 3, 3, 4, 5)
        check_function(lambda x: F.interpolate(x, scale_factor=2, mode="trilinear"), x)
        check_function(lambda x: F.interpolate(x, size=7, mode="linear"), x[0, :, 0])

    def test_special_values(self):
        x = bf16(1, 40, 7, 9)
        x[0, 0, 0, 3], x[0, 5, 6, 8], x[0, 39, 3, 0], x[0, 7] = math.inf, math.nan, -math.inf, -0.0
        for image in (x, x.contiguous(memory_format=LAST)):
            _, found, exact = bilinear(image, scale_factor=2.0)
            self.assertEqual(found.isnan(), exact.isnan())
            self.assertEqual(found.isinf(), exact.isinf())
            finite = exact.isfinite()
            self.check(torch.where(finite, found, 0.0), torch.where(finite, exact, 0.0))

    def test_elements_of_weight_0_count(self):
        """An infinity times 0 is a NaN, as upstream has it."""
        x = torch.ones(1, 32, 1, 3, dtype=BF16)
        x[..., 2] = math.inf
        for options in ({"scale_factor": 3.0}, {"size": (4, 3)}):
            _, found, _ = bilinear(x, **options)
            exact = F.interpolate(x, mode="bilinear", **options)  # in float64, other weights become 0
            self.assertTrue(exact.isnan().any())
            self.assertEqual(found.isnan(), exact.isnan())
            self.assertEqual(found.isinf(), exact.isinf())

    def test_cycles(self):
        """At most 8 for an element of the result; the scalar core needs more than 100."""
        run, found, _ = bilinear(bf16(1, 64, 16, 16), scale_factor=2.0)
        self.assertLess(run.stats.cycles, 8 * found.numel())

    def test_runs(self):
        """A factor of 2: both ends, and the odd and even places between them."""
        places = [[0, 0], [0, 1], [0, 1], [1, 2], [1, 2], [2, 2]]
        weights = [[1.0, 0.0], [0.75, 0.25], [0.25, 0.75], [0.75, 0.25], [0.25, 0.75], [1.0, 0.0]]
        expected = [
            Run(0, 5, 2, ((1.0, 0, 2), (0.0, 0, 2))),
            Run(1, 2, 2, ((0.75, 0, 1), (0.25, 1, 1))),
            Run(2, 2, 2, ((0.25, 0, 1), (0.75, 1, 1))),
        ]
        self.assertEqual(list(runs(places, weights)), expected)


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


instantiate_parametrized_tests(TestLinearResampling)
instantiate_parametrized_tests(TestBytes)
