# SPDX-License-Identifier: BSD-3-Clause
"""Eager ops on the ISA engine."""

from __future__ import annotations

import random
import warnings

import torch
import torch.nn.functional as F
from torch import nn
from torch.testing._internal.common_utils import TestCase

import torch_atalla
from torch_atalla.compiler.targets.chip.network import NoProgramError

warnings.filterwarnings("ignore", category=FutureWarning)


def tensor(*sizes: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(sizes))
    return torch.randn(*sizes, generator=generator).bfloat16().to("atalla")


class TestEagerIsa(TestCase):
    def check(self, function, *args):
        with torch.no_grad():
            expected = function(*args)
            with torch_atalla.chip.engine("isa") as mode:
                found = function(*args)
        self.assertEqual(found.device.type, "atalla")
        self.assertEqual(found, expected, atol=0.05, rtol=0.03)
        self.assertGreater(sum(mode.ops.values()), 0)
        self.assertGreater(mode.stats.cycles, 0)
        return mode

    def test_ops(self):
        x, y = tensor(33, 40), tensor(40, 50)
        self.check(torch.add, x, x)
        self.check(torch.mm, x, y)
        self.check(lambda t: torch.softmax(t, -1), x)
        self.check(F.gelu, x)
        self.check(lambda t: t.sum(1), x)
        self.check(lambda t: F.layer_norm(t, (40,)), x)
        self.check(lambda t: t.t().contiguous(), x)

    def test_module(self):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(40, 70), nn.ReLU(), nn.Linear(70, 10)).bfloat16().to("atalla").eval()
        mode = self.check(model, tensor(5, 40))
        self.assertEqual(mode.ops["aten.addmm.default"], 2)

    def test_layers(self):
        """Convolutions over layers of images run on the array, whatever their windows, groups and layout."""
        rng = random.Random(0)
        for _ in range(8):
            groups, dims = rng.choice([1, 1, 2, 4]), range(3)
            kernel, stride, dilation = ([rng.choice(range(1, most)) for _ in dims] for most in (4, 3, 3))
            padding = [rng.choice([0, 1, 2]) for _ in dims]
            sizes = [rng.randint((k - 1) * d + 1, 8) for k, d in zip(kernel, dilation)]
            x = tensor(rng.choice([1, 3]), groups * rng.choice([1, 3, 8]), *sizes)
            if rng.random() < 0.4:
                x = x.contiguous(memory_format=torch.channels_last_3d)
            weight = tensor(groups * rng.choice([2, 16]), x.shape[1] // groups, *kernel) * 0.2
            mode = self.check(lambda x, w: F.conv3d(x, w, None, stride, padding, dilation, groups), x, weight)  # noqa: B023
            self.assertGreater(mode.stats.unit_cycles["gsau"], 0)

    def test_gradients_of_layers(self):
        """Weights are read backwards, and a result that nobody asked for is None."""
        x, weight = tensor(2, 8, 5, 6, 7), tensor(6, 8, 3, 3, 3) * 0.1
        given = [t.detach().clone().requires_grad_() for t in (x, weight)]
        F.conv3d(*given, None, (1, 2, 1), 1).sum().backward()
        found = [t.detach().clone().requires_grad_() for t in (x, weight)]
        with torch_atalla.chip.engine("isa") as mode:
            F.conv3d(*found, None, (1, 2, 1), 1).sum().backward()
        self.assertEqual(mode.ops["aten.convolution_backward.default"], 1)
        for one, other in zip(found, given):
            self.assertEqual(one.grad, other.grad, atol=0.3, rtol=0.02)

    def test_truth_values(self):
        """Bytes become numbers and numbers bytes, at every address and for tails of every length."""
        generator = torch.Generator().manual_seed(0)
        for n in (1, 63, 64, 65, 2047, 2049, 4096 + 64 * 5 + 3):
            for first in (0, 1, 2):
                truths = torch.rand(n + first, generator=generator) < 0.5
                x, given = tensor(n), truths.to("atalla")[first:]
                for call in (torch.logical_not, torch.clone, lambda t, x=x: torch.where(t, x, 2.0)):
                    with torch_atalla.chip.engine("isa"):
                        found = call(given)
                    self.assertEqual(found, call(given), atol=0, rtol=0)
        dense = (torch.rand(8, 64, 5, generator=generator) < 0.5).to("atalla").permute(2, 0, 1)
        mode = self.check(torch.logical_not, dense)
        self.assertLess(mode.stats.cycles, 5 * dense.numel())  # 32 each on the scalar core

    def test_truth_values_of_other_bytes(self):
        numbers = torch.arange(5000, dtype=torch.int32).remainder(300).clamp(max=255).to(torch.uint8)
        numbers[:2048] = numbers[:2048] > 0
        truths = numbers.to("atalla").view(torch.bool)
        with torch_atalla.chip.engine("isa"):
            found = torch.logical_not(truths)
        self.assertEqual(found, numbers == 0)

    def test_float_mode_of_the_caller(self):
        """Flushing of subnormal numbers, which the calling thread chose, does not reach the chip."""
        truths = (torch.arange(4096) % 3 == 0).to("atalla")
        small = torch.full((4,), 1e-40).to("atalla")
        self.assertTrue(torch.set_flush_denormal(True))
        try:
            with torch_atalla.chip.engine("isa"):
                found = torch.logical_not(truths)
            doubled = (small * 2).view(torch.int32).cpu()
        finally:
            torch.set_flush_denormal(False)
        self.assertEqual(found, truths.cpu().logical_not())
        self.assertEqual(doubled, (torch.full((4,), 1e-40) * 2).view(torch.int32))

    def test_copies_of_integers(self):
        for dtype in (torch.int32, torch.int64):
            x = torch.arange(-3000, 3000, dtype=dtype).view(3, 40, 50).to("atalla")
            for call in (torch.clone, lambda x: x.transpose(0, 2).contiguous(), lambda x: x[:, 3:, ::2].contiguous()):
                mode = self.check(call, x)
            self.assertLess(mode.stats.cycles, 4 * x.numel())
            self.check(lambda x: torch.cat([x, x[:, :7]], 1), x)

    def test_missing(self):
        x = tensor(8, 8)
        with torch_atalla.chip.engine("isa"), self.assertRaisesRegex(NoProgramError, "lgamma"):
            torch.lgamma(x)
        with torch_atalla.chip.engine("isa"), self.assertRaisesRegex(NoProgramError, "bfloat16"):
            torch.add(x.float(), 1)
        with torch_atalla.chip.engine("isa", missing="functional") as mode:
            self.assertEqual(torch.lgamma(x).shape, x.shape)
        self.assertEqual(mode.ops, {})
        with self.assertRaisesRegex(ValueError, 'expected "functional" or "isa"'):
            torch_atalla.chip.engine("rtl")
        with torch_atalla.chip.engine("functional"):
            torch.lgamma(x)
