# SPDX-License-Identifier: BSD-3-Clause
"""Temporaries that stay in scratchpad 0 from one call to the next."""

from __future__ import annotations

import warnings
from unittest import mock

import torch
import torch.nn.functional as F
from chip_op_calls import Function
from isa_kernels import BF16
from torch import nn
from torch.testing._internal.common_utils import TestCase, instantiate_parametrized_tests, parametrize

from torch_atalla import isa
from torch_atalla.compiler.targets.chip import keep
from torch_atalla.compiler.targets.chip.build import CompiledNetwork, compile_model
from torch_atalla.compiler.targets.chip.check import check_network
from torch_atalla.compiler.targets.chip.place import Run

warnings.filterwarnings("ignore", category=FutureWarning)


class Block(nn.Module):
    """Every kernel whose operands may stay: norm, products, attention, softmax, pointwise, transpose, copy."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(x * 0.5)
        q, k, v = self.qkv(y).unflatten(-1, (3, -1, 32)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        x = x + self.out(y)
        x = x + self.down(F.gelu(self.up(self.norm(x))))
        scores = torch.softmax(x, -1)
        turned = (scores + x).transpose(1, 2).contiguous()
        return torch.cat((turned, turned * 2), 1) * 3 + 1


class Images(nn.Module):
    """Convolutions of whole tiles of channels, one of them with a stride, and residual additions."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.one = nn.Conv2d(32, 64, 1), nn.Conv2d(64, 64, 3, padding=1)
        self.down, self.skip = nn.Conv2d(64, 96, 3, 2, 1), nn.Conv2d(64, 96, 1, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.stem(x))
        x = F.relu(x + self.one(x))
        return F.relu(self.down(x) + self.skip(x)).mean((2, 3))


def compiled(tokens: int, width: int = 64, batch: int = 2) -> CompiledNetwork:
    torch.manual_seed(0)
    return compile_model(Block(width).eval(), (torch.randn(batch, tokens, width),), convert=True)


def bytes_of(run: Run) -> int:
    return run.stats.dram_bytes_read + run.stats.dram_bytes_written


class TestKept(TestCase):
    @parametrize("tokens", [64, 33, 5])
    def test_values(self, tokens):
        """The check compares every stored value, those in the scratchpad too."""
        network = compiled(tokens)
        self.assertGreaterEqual(len(network.network.kept), 5)
        self.assertEqual(isa.check(network.code), [])
        check_network(network)

    def test_convolutions(self):
        torch.manual_seed(0)
        for size in (7, 40):
            network = compile_model(Images().eval(), (torch.randn(2, 32, size, size),), convert=True)
            self.assertGreaterEqual(len(network.network.kept), 2)
            check_network(network)

    def test_as_with_all_temporaries_in_dram(self):
        """The same bits, for about half of the bytes."""
        x = torch.randn(2, 65, 64, dtype=BF16)
        kept = compiled(65).run([x])
        with mock.patch.object(keep, "_candidates", return_value=[]):
            network = compiled(65)
        moved = network.run([x])
        self.assertEqual(network.network.kept, {})
        self.assertEqual(kept.outputs[0].view(torch.int16), moved.outputs[0].view(torch.int16))
        self.assertLessEqual(bytes_of(kept), 0.7 * bytes_of(moved))

    def test_what_does_not_fit_stays_in_dram(self):
        whole = compiled(72).network.kept
        with mock.patch.object(keep, "SCRATCH_ROWS", 2048):
            network = compiled(72)
        self.assertLess(len(network.network.kept), len(whole))
        check_network(network)

    def test_no_kernel_uses_more_rows_than_it_names(self):
        """Kept operands lie behind those rows. Here nothing is kept."""
        x, y = (torch.rand(96, 160, generator=torch.Generator().manual_seed(k)).bfloat16() + 1 for k in (0, 1))
        for function, given in (
            (lambda x: x.clone(), [x > 1.5]),
            (lambda x: x.t().contiguous(), [x]),
            (lambda x: torch.softmax(x, -1), [x]),
            (torch.add, [x, y]),
        ):
            with mock.patch.object(keep, "SCRATCH_ROWS", 0):
                network = compile_model(Function(function), tuple(given))
            calls = [call for call in network.network.image.calls if call.kernel is not None]
            rows = max(call.kernel.__self__.scratch_rows(call.variant, call.words) for call in calls)
            self.assertLess(rows, 1024)
            self.assertFalse(network.run(given).result.machine.scratchpad(0, rows, 1024 - rows).any())


instantiate_parametrized_tests(TestKept)
