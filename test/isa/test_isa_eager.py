# SPDX-License-Identifier: BSD-3-Clause
"""Eager ops on the ISA engine."""

from __future__ import annotations

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
