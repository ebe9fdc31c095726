# SPDX-License-Identifier: BSD-3-Clause
"""Programs that are exported on the CPU and moved to the device by torch.export.passes.move_to_device_pass."""

from __future__ import annotations

import copy
from pathlib import Path

import models
import pytest
import torch
from export_suite import Fn
from torch import nn
from torch.export.passes import move_to_device_pass
from torch.nn import functional as F
from torch.testing._internal.common_utils import TEST_WITH_SLOW, TestCase
from torch.utils._pytree import tree_leaves, tree_map

import torch_atalla

X, IMAGE, TOKENS = torch.randn(4, 6), torch.randn(2, 3, 8, 8), torch.randint(0, 10, (2, 5))


def _conditions(m, x):
    torch._check(x.sum().item() < 1e9)
    return x.to(torch.float64).to(torch.float32) + x.to(x.device)


def _counted(m, x):
    m.count.add_(1)
    return x + m.count


# name -> (module, arguments)
CASES = {
    "constants": (Fn(lambda m, x: x * torch.tensor([1.0, 2, 3, 4, 5, 6]) + m.b, b=torch.randn(6)), (X,)),
    "mutable buffer": (Fn(_counted, count=torch.zeros(())), (X,)),
    "factories": (
        Fn(
            lambda m, x: (
                x + torch.arange(x.shape[1]) + torch.full((6,), 0.5) + torch.eye(6)[0] + torch.linspace(0, 1, 6),
                x.masked_fill(torch.ones(4, 6, dtype=torch.bool).triu(1), 0.0),
                torch.zeros(3) + torch.ones(2, 3),
                x + torch.arange(6, device=x.device) + x.new_ones(6) + torch.zeros_like(x),
            )
        ),
        (X,),
    ),
    "conversions": (Fn(_conditions), (X,)),
    "indices": (Fn(lambda m, x: (x[torch.tensor([0, 2])], torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0])))), (X,)),
    "positions": (Fn(lambda m, x: x + m.e(torch.arange(4)), e=nn.Embedding(8, 6)), (X,)),
    "convolution": (
        nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2)).eval(),
        (IMAGE,),
    ),
    "training": (nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)), (IMAGE,)),
    "convolutions": (
        Fn(
            lambda m, x: m.up(m.groups(m.line(x.flatten(2)).unflatten(-1, (2, -1)))),
            line=nn.Conv1d(3, 4, 3, padding=1),
            groups=nn.Conv2d(4, 4, 2, groups=4),
            up=nn.ConvTranspose2d(4, 2, 2, stride=2),
        ),
        (IMAGE,),
    ),
    "volume": (nn.Conv3d(2, 3, 3), (torch.randn(1, 2, 5, 5, 5),)),
    "embedding": (nn.Sequential(nn.Embedding(10, 4), nn.Linear(4, 3)), (TOKENS,)),
    "bags": (nn.EmbeddingBag(10, 4), (TOKENS,)),
    "attention": (
        Fn(lambda m, x: F.scaled_dot_product_attention(x, x, x, is_causal=True)),
        (torch.randn(2, 2, 5, 8),),
    ),
    "encoder": (nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval(), (torch.randn(2, 5, 8),)),
    "lstm": (Fn(lambda m, x: m.l(x), l=nn.LSTM(6, 5, batch_first=True)), (torch.randn(2, 3, 6),)),
    "norms": (
        Fn(lambda m, x: m.g(m.i(x)) + m.n(x), g=nn.GroupNorm(1, 3), i=nn.InstanceNorm2d(3), n=nn.LayerNorm(8)),
        (IMAGE,),
    ),
    "grids": (
        Fn(lambda m, x: F.grid_sample(x, F.affine_grid(torch.eye(2, 3).expand(2, 2, 3), [2, 3, 4, 4]))),
        (IMAGE,),
    ),
    "resampling": (
        Fn(lambda m, x: F.interpolate(x, scale_factor=2, mode="bilinear") + F.pad(x, (4,) * 4, "reflect")),
        (IMAGE,),
    ),
    "fourier": (Fn(lambda m, x: torch.fft.rfft(x).abs()), (X,)),
    **models.seed_models(),
    **(models.spelled_out() if TEST_WITH_SLOW else {}),
}


class TestMovedPrograms(TestCase):
    """The module of the moved program, and its loadable, give what the program gives on the CPU."""

    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path) -> None:
        self.path = tmp_path / "moved.atl"

    def moved(self, module, args):
        expected = tree_leaves(copy.deepcopy(module)(*args))
        exported = torch.export.export(module, args)
        given = tree_map(lambda x: x.to("atalla") if isinstance(x, torch.Tensor) else x, args)
        return move_to_device_pass(exported, "atalla"), expected, given

    def loaded(self, program):
        torch_atalla.save_loadable(program, self.path, fallback="error", golden=False)
        return torch_atalla.load_loadable(self.path)

    def compare(self, module, args):
        program, expected, given = self.moved(module, args)
        loaded = self.loaded(program)  # before a call changes its buffers
        with torch.no_grad(), torch_atalla.fallback.mode("error"):
            eager = tree_leaves(program.module()(*given))
        for found in (eager, tree_leaves(loaded(*given))):
            for a, b in zip(found, expected, strict=True):
                self.assertEqual(a.device.type, "atalla")
                self.assertEqual(a.cpu(), b, rtol=1e-3, atol=1e-3)

    def test_random_numbers(self):
        """Drawn on the device, as eager mode draws them."""

        def forward(m, x):
            mask = torch.bernoulli(torch.full((6,), 0.5))
            return x + torch.rand(6) + torch.randn_like(x) + F.dropout(x, 0.5, True) + mask

        program, _, given = self.moved(Fn(forward), (X,))
        loaded = self.loaded(program)
        torch.manual_seed(3)
        expected = program.module()(*given)
        torch.manual_seed(3)
        self.assertEqual(loaded(*given), expected, rtol=0, atol=0)


def _add(name: str) -> None:
    setattr(TestMovedPrograms, f"test_{name.replace(' ', '_')}", lambda self: self.compare(*CASES[name]))


for _name in CASES:
    _add(_name)


def test_count() -> None:
    assert len(CASES) >= 20
