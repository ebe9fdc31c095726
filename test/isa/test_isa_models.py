# SPDX-License-Identifier: BSD-3-Clause
"""Small models as Atalla programs, and what has no program."""

from __future__ import annotations

import warnings

import torch
import torch.nn.functional as F
from isa_kernels import BF16, CodegenTestCase, bf16, run_launch
from isa_networks import Micro
from torch import nn

from torch_atalla import isa
from torch_atalla.compiler.capture.capture import capture
from torch_atalla.compiler.file.code import MethodsCode
from torch_atalla.compiler.targets.chip.build import compile_model
from torch_atalla.compiler.targets.chip.check import check_network
from torch_atalla.compiler.targets.chip.fusion import CHIP
from torch_atalla.compiler.targets.chip.network import NoProgramError
from torch_atalla.compiler.targets.functional.pipeline import Options, lower_captured, plan_lowered

warnings.filterwarnings("ignore", category=FutureWarning)


class Residual(nn.Module):
    """Additions behind products: of an input, of another product's result, before an activation."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.down = nn.Linear(40, 40), nn.Linear(40, 70), nn.Linear(40, 70, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(x + self.one(x))
        return self.down(x) + self.two(x)


class ResidualBlock(nn.Module):
    def __init__(self, channels: int, groups: int = 1) -> None:
        super().__init__()
        self.stem = nn.Conv2d(channels, channels, 1)
        self.one = nn.Conv2d(channels, channels, 3, padding=1, groups=groups)
        self.two = nn.Conv2d(channels, channels, 1, bias=False, groups=groups)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.stem(x)
        return F.relu(y + self.two(F.relu(self.one(y))))


class Gate(nn.Module):
    """Two chains of elementwise launches that another one stands between."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        gate = torch.where(x > 0, x.sigmoid(), 0.5 * x)
        total = (x * x + 1).sum(-1, keepdim=True)
        return gate * total.rsqrt(), total


class TestNetworks(CodegenTestCase):
    def network(self, module, args, cosine=0.999):
        expected = module(*args)
        compiled = compile_model(module, args, convert=True)
        run = compiled.run([a.to(BF16) if a.is_floating_point() else a for a in args])
        self.check(run.outputs[0], expected.detach(), cosine=cosine, error=0.1)
        self.assertEqual(isa.check(compiled.code), [])
        return run

    def test_vit_micro(self):
        torch.manual_seed(0)
        run = self.network(Micro().eval(), (torch.randn(1, 32, 32),), 0.9999)
        self.assertLessEqual(run.stats.instructions, 10_000)
        self.assertLessEqual(run.stats.cycles, 13_000)
        self.assertLessEqual(run.stats.dram_bytes_read + run.stats.dram_bytes_written, 24_000)

    def test_residual_additions(self):
        """They join the products, at the same values as with a call of their own."""
        torch.manual_seed(0)
        for model, x, joined in (
            (Residual(), torch.randn(2, 35, 40), 2),
            (ResidualBlock(32), torch.randn(2, 32, 9, 9), 1),
            (ResidualBlock(64, 2), torch.randn(1, 64, 8, 8), 2),  # a call for each group
            (ResidualBlock(3), torch.randn(1, 3, 8, 8), 1),
            (ResidualBlock(8, 8), torch.randn(1, 8, 8, 8), 0),  # depthwise convolutions take none
        ):
            self.network(model.eval(), (x,))
            compiled = compile_model(model.eval(), (x,), convert=True)
            check_network(compiled)
            names = [
                call.function for call in compiled.network.image.calls if call.function.startswith(("gemm", "conv"))
            ]
            self.assertEqual(sum("_residual" in name for name in names), joined)

    def test_both_engines_run_one_schedule(self):
        torch.manual_seed(0)
        for model, x in (
            (Micro(), torch.randn(1, 32, 32)),
            (Residual(), torch.randn(2, 35, 40)),
            (ResidualBlock(32), torch.randn(2, 32, 9, 9)),
            (Gate(), torch.randn(4, 24)),
        ):
            program = torch.export.export(model.eval().to(BF16), (x.to(BF16),))
            code = MethodsCode({"forward": program})
            options = Options(optimize="fast", target=CHIP, cores=code.compile)
            file = plan_lowered(lower_captured(capture(program), options), options)
            network = code.networks["forward"][0].network
            launches = [launch.node for launch in file.program.instructions]
            self.assertEqual(launches, [item.launch.node for item in network.launches])
            self.assertEqual(file.cores, (1,) * len(launches))

    def test_other_batches_and_lengths(self):
        torch.manual_seed(0)
        for sizes in ((2, 17, 32), (1, 1, 32), (3, 65, 32)):
            self.network(Micro().eval(), (torch.randn(*sizes),))

    def test_small_convolutional_network(self):
        torch.manual_seed(0)
        model = nn.Sequential(
            nn.Conv2d(3, 32, 5, 2, 2), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 48, 3, padding=1),
            nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(192, 10),
        ).eval()  # fmt: skip
        self.network(model, (torch.randn(2, 3, 32, 32),))

    def test_same_code_for_other_sizes(self):
        """Sizes are the descriptor's: 256 and 512 inputs share a product's code."""
        names = []
        for k in (256, 512):
            a, b = bf16(1, 32, k), bf16(1, k, 32, seed=1)
            network = run_launch("gemm", torch.empty(1, 32, 32, dtype=BF16), [a, b], alpha=1, beta=0)
            names.append(network.result.machine.program.encode().tobytes())
        self.assertEqual(names[0], names[1])

    def test_deterministic_cycles(self):
        compiled = compile_model(nn.Linear(64, 64), (torch.randn(4, 64),), convert=True)
        cycles = {compiled.run([bf16(4, 64)]).stats.cycles for _ in range(10)}
        self.assertEqual(len(cycles), 1)

    def test_no_program(self):
        class Gamma(nn.Module):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return torch.lgamma(x)

        with self.assertRaisesRegex(NoProgramError, "lgamma"):
            compile_model(Gamma(), (torch.randn(4, 8),), convert=True)
        with self.assertRaisesRegex(NoProgramError, "bfloat16"):
            compile_model(nn.ReLU(), (torch.randn(4, 8),))

        class Counts(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.register_buffer("total", torch.zeros(4, dtype=BF16))

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                self.total.add_(x)
                return self.total * 2

        compiled = compile_model(Counts(), (bf16(4),))
        check_network(compiled)
        self.assertEqual(list(compiled.network.states), ["total"])
        sizes = ({0: torch.export.Dim("rows", min=2, max=64)},)
        exported = torch.export.export(nn.Linear(8, 8).to(BF16), (bf16(4, 8),), dynamic_shapes=sizes)
        with self.assertRaisesRegex(NoProgramError, "expected a program of fixed sizes"):
            compile_model(exported)
