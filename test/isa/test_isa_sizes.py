# SPDX-License-Identifier: BSD-3-Clause
"""Atalla code for sizes that `dynamic_shapes` bound: one code, and a table of calls for every combination of sizes."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import models
import numpy as np
import torch
from torch import nn
from torch.export import Dim, export
from torch.testing._internal.common_utils import TestCase

import torch_atalla
from tools.model_zoo import MODELS
from torch_atalla.compiler.targets.chip import build
from torch_atalla.compiler.targets.chip.build import compile_model
from torch_atalla.compiler.targets.chip.network import NoProgramError
from torch_atalla.loadable.code_machine import CodeMachine

BF16 = torch.bfloat16
RUN = Path(torch_atalla.__file__).parent / "bin/atalla-run"


def mlp() -> nn.Module:
    torch.manual_seed(0)
    layers = nn.Linear(40, 70), nn.GELU(), nn.LayerNorm(70), nn.Linear(70, 10), nn.Softmax(-1)
    return nn.Sequential(*layers).to(BF16).eval()


class TestSizes(TestCase):
    def setUp(self):
        super().setUp()
        torch.manual_seed(0)
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = os.path.join(directory.name, "model.atl")

    def save(self, module: nn.Module, args: tuple, shapes: Any, **options: Any) -> tuple[Any, Any, Any]:
        """The report, and the program on both engines."""
        exported = export(module, args, dynamic_shapes=shapes)
        report = torch_atalla.save_loadable(exported, self.path, engine="isa", fallback="error", **options)
        return report, *(torch_atalla.load_loadable(self.path, engine=engine) for engine in ("isa", "functional"))

    def compare(self, module: nn.Module, chip: Any, launches: Any, *args: torch.Tensor) -> torch.Tensor:
        """Both engines give PyTorch's values, up to rounding, and results of one shape and stride."""
        given = [x.to("atalla") for x in args]
        found, other = chip(*given).cpu(), launches(*given).cpu()
        self.assertEqual((found.shape, found.stride(), found.dtype), (other.shape, other.stride(), other.dtype))
        with torch.no_grad():
            right = module(*args).double()
        scale = float(right.abs().max()) + 1e-6
        self.assertLess(float((found.double() - right).abs().max()) / scale, 0.04)
        self.assertLess(float((other.double() - right).abs().max()) / scale, 0.04)
        return found

    def test_a_size_gives_the_bits_and_cycles_of_its_own_export(self):
        module = mlp()
        report, chip, launches = self.save(module, (torch.randn(4, 40).to(BF16),), ({0: Dim("b", min=1, max=40)},))
        self.assertEqual(report.code["sizes"], 40)
        self.assertEqual(len(report.code["cycles_by_size"]), 3)
        cycles = []
        for rows in (1, 2, 7, 31, 32, 33, 40, 1):
            x = torch.randn(rows, 40).to(BF16)
            found = self.compare(module, chip, launches, x)
            cycles.append(chip.stats.cycles)
            fixed = compile_model(module, (x,)).run([x])
            self.assertEqual(found, fixed.outputs[0], rtol=0, atol=0)
            self.assertEqual(cycles[-1], fixed.stats.cycles)
        self.assertEqual(cycles[0], cycles[-1])
        self.assertLess(cycles[0], 0.7 * cycles[6])
        self.assertEqual(torch_atalla.load_loadable(self.path, engine="isa").verify(), 3)

    def test_errors_of_sizes(self):
        module = mlp()
        _, chip, launches = self.save(module, (torch.randn(4, 40).to(BF16),), ({0: Dim("b", min=2, max=6)},))
        for rows in (1, 7):
            texts = []
            for program in (chip, launches):
                with self.assertRaisesRegex(ValueError, f"dimension 0 is {rows}, expected 2 to 6") as caught:
                    program(torch.randn(rows, 40).to(BF16).to("atalla"))
                texts.append(str(caught.exception))
            self.assertEqual(*texts)

    def test_multiples(self):
        module, halves = mlp(), Dim("halves", min=2, max=4)
        report, chip, launches = self.save(module, (torch.randn(4, 40).to(BF16),), ({0: 2 * halves},))
        self.assertEqual(report.code["sizes"], 3)
        for rows in (4, 6, 8):
            self.compare(module, chip, launches, torch.randn(rows, 40).to(BF16))
        with self.assertRaisesRegex(ValueError, "dimension 0 is 5, expected a multiple of 2 from 4 to 8"):
            chip(torch.randn(5, 40).to(BF16).to("atalla"))

    def test_partial_tiles_and_strides_that_follow_sizes(self):
        class Mixed(nn.Module):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                b, t, _ = x.shape
                weights = (x @ x.transpose(1, 2)).softmax(-1)  # over a dimension that the call determines
                mixed = (weights @ x).transpose(1, 2).reshape(b, 16 * t)
                return (mixed - mixed.mean(-1, keepdim=True) + x.amax((1, 2), keepdim=True)[..., 0]).t()

        shapes = ({0: Dim("b", min=1, max=2), 1: Dim("t", min=30, max=34)},)
        report, chip, launches = self.save(Mixed(), (torch.randn(2, 31, 16).to(BF16),), shapes)
        self.assertEqual(report.code["sizes"], 10)
        for b in (1, 2):
            for t in (30, 31, 32, 33, 34):
                self.compare(Mixed(), chip, launches, torch.randn(b, t, 16).to(BF16))

    def test_encoder_with_batch_and_length(self):
        module, _ = models.tiny_bert()
        args = torch.randint(0, 100, (2, 32)), torch.ones(2, 32, dtype=torch.long)
        args[1][1, 20:] = 0
        b, t = Dim("b", min=1, max=3), Dim("t", min=31, max=33)
        report, chip, launches = self.save(module, args, ({0: b, 1: t}, {0: b, 1: t}), convert="bfloat16")
        self.assertGreater(report.code["cosine"], 0.999)
        for rows, length in ((1, 31), (2, 32), (1, 33), (3, 33)):
            ids, mask = torch.randint(0, 100, (rows, length)), torch.ones(rows, length, dtype=torch.long)
            mask[-1, 17:] = 0
            self.compare(module, chip, launches, ids, mask)

    def test_decoder_with_length(self):
        model, _ = MODELS["Llama"]()
        module = models.Logits(model).eval()
        shapes = ({1: Dim("t", min=31, max=34)},)
        _, chip, launches = self.save(module, (torch.randint(3, 97, (2, 32)),), shapes, convert="bfloat16")
        for length in (31, 32, 33, 34):
            self.compare(module, chip, launches, torch.randint(3, 97, (2, length)))

    def test_images_with_batch(self):
        module = nn.Sequential(
            nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 40, 3),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(40, 10),
        ).eval()  # fmt: skip
        shapes = ({0: Dim("b", min=1, max=3)},)
        _, chip, launches = self.save(module, (torch.randn(2, 3, 12, 12),), shapes, convert="bfloat16")
        cycles = []
        for rows in (1, 2, 3):
            self.compare(module.to(BF16), chip, launches, torch.randn(rows, 3, 12, 12).to(BF16))
            cycles.append(chip.stats.cycles)
        self.assertLess(cycles[0], 0.5 * cycles[2])

    def test_methods_share_a_mutable_buffer(self):
        class Totals(nn.Module):
            total: torch.Tensor

            def __init__(self, total: torch.Tensor) -> None:
                super().__init__()
                self.register_buffer("total", total)

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                self.total.add_(x.sum(0))
                return x + self.total

        total, rows = torch.zeros(8, dtype=BF16), Dim("rows", min=2, max=5)
        methods = {
            "many": export(Totals(total), (torch.ones(3, 8).to(BF16),), dynamic_shapes=({0: rows},)),
            "one": export(Totals(total), (torch.ones(1, 8).to(BF16),)),
        }
        torch_atalla.save_loadable(methods, self.path, engine="isa", fallback="error")
        program = torch_atalla.load_loadable(self.path, engine="isa")
        for name, count, right in (("many", 2, 3), ("one", 1, 4), ("many", 5, 9), ("many", 2, 11)):
            found = program[name](torch.ones(count, 8).to(BF16).to("atalla")).cpu()
            self.assertEqual(found, torch.full((count, 8), float(right)).to(BF16))

    def test_from_the_command_line(self):
        module = mlp()
        _, chip, _ = self.save(module, (torch.randn(4, 40).to(BF16),), ({0: Dim("b", min=1, max=5)},))
        x = torch.randn(3, 40).to(BF16)
        raw = f"{self.path}.bin"
        x.view(torch.int16).numpy().tofile(raw)
        command = [RUN, self.path, "--engine", "isa", "--shape", "3x40", "--input", raw]
        text = subprocess.run([*command, "--output", f"{raw}.out.bin"], capture_output=True, text=True, check=True)
        found = torch.from_numpy(np.fromfile(f"{raw}.out.bin", np.int16)).view(BF16).view(3, 10)
        self.assertEqual(found, chip(x.to("atalla")).cpu(), rtol=0, atol=0)
        self.assertIn(f"{chip.stats.cycles} cycles", text.stdout + text.stderr)

    def test_converted_program_with_a_number_among_its_inputs(self):
        class Scaled(nn.Module):
            def forward(self, x: torch.Tensor, factor: int, y: torch.Tensor) -> torch.Tensor:
                return x * factor + y

        b, x = Dim("b", min=2, max=5), torch.randn(4, 40)
        shapes = {"x": {0: b}, "factor": None, "y": {0: b}}
        self.save(Scaled(), (x, 3, x + 1), shapes, convert="bfloat16")
        chip = torch_atalla.load_loadable(self.path, engine="isa")
        for rows in (2, 5):
            x = torch.randn(rows, 40)
            found = chip(x.to(BF16).to("atalla"), 3, x.to(BF16).to("atalla")).cpu()
            self.assertEqual(found.float(), 4 * x, rtol=0.02, atol=0.02)
        with self.assertRaisesRegex(ValueError, "dimension 0 is 6, expected 2 to 5"):
            x = torch.randn(6, 40).to(BF16).to("atalla")
            chip(x, 3, x)

    def test_profile_is_that_of_the_largest_sizes(self):
        report, chip, launches = self.save(mlp(), (torch.randn(4, 40).to(BF16),), ({0: Dim("b", min=1, max=5)},))
        for rows in (3, 1, 5):
            x = torch.randn(rows, 40).to(BF16).to("atalla")
            chip(x)
            before = torch_atalla._C.counters(0)["cycles"]
            launches(x)
            torch.atalla.synchronize()
            self.assertEqual(torch_atalla._C.counters(0)["cycles"] - before, chip.stats.cycles)
        run = CodeMachine(self.path)
        self.assertEqual(run.profile().stats.cycles, report.code["cycles"])
        self.assertEqual(report.estimate_cycles, report.code["cycles"])
        self.assertEqual(run.outputs()[0].shape, (5, 10))

    def test_refused(self):
        x = torch.randn(4, 40).to(BF16)
        with self.assertRaisesRegex(NoProgramError, "dimension 0 of input input, which has no upper bound"):
            self.save(mlp(), (x,), ({0: Dim("b", min=1)},))
        most = build.MOST_ASSIGNMENTS
        with self.assertRaisesRegex(NoProgramError, rf"allow {most + 1:,} combinations of sizes"):
            self.save(mlp(), (x,), ({0: Dim("b", min=2, max=most + 2)},))

        class Gamma(nn.Module):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return torch.lgamma(x)

        with self.assertRaisesRegex(NoProgramError, r"lgamma(.|\n)*test_isa_sizes.py(.|\n)*with dimension 0 of x 2"):
            self.save(Gamma(), (x,), ({0: Dim("b", min=2, max=4)},))
        self.assertFalse(os.path.exists(self.path))


if __name__ == "__main__":
    from torch.testing._internal.common_utils import run_tests

    run_tests()
