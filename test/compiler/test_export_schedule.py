# SPDX-License-Identifier: BSD-3-Clause
"""Charged cycles of loadables, and division over cores."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from torch import nn
from torch.testing._internal.common_utils import TestCase, instantiate_parametrized_tests, parametrize

import torch_atalla
from torch_atalla import chip
from torch_atalla.compiler.schedule import chip_model


class Block(nn.Module):
    """A transformer block, whose parts are every kind of launch that matters."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.norm, self.out_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.heads = heads

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, c = x.shape
        parts = self.qkv(self.norm(x)).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(*parts, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(b, t, c))
        return x + self.down(nn.functional.gelu(self.up(self.out_norm(x))))


def mlp() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    layers = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.Tanh(), nn.Linear(512, 64))
    return layers, (torch.randn(48, 256),)


def block() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    return Block(96, 4), (torch.randn(2, 33, 96),)


def convolutions() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    layers = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3), nn.SiLU()
    )
    return nn.Sequential(layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10)), (torch.randn(2, 3, 32, 32),)


class Mixed(nn.Module):
    """Lookups, reductions, sorting, and an op for the host."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(1000, 64)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.table(ids)
        best = torch.sort(x, dim=-1, stable=True)[0].cumsum(-1)
        return torch.softmax(best * x.amax(-1, keepdim=True), -1).sum(0) + torch.bernoulli(torch.zeros(64))


def mixed() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    return Mixed(), (torch.randint(0, 1000, (40, 8)),)


MODELS = {"mlp": mlp, "block": block, "convolutions": convolutions, "mixed": mixed}


def built(name: str) -> tuple[torch.export.ExportedProgram, tuple[torch.Tensor, ...]]:
    torch.manual_seed(0)
    module, args = MODELS[name]()
    return torch.export.export(module.eval(), args), args


def model_of(cores: int):
    return chip_model(config_with(cores))


def config_with(cores: int) -> str:
    text = chip.config_text(0)
    assert 'count = { value = 1, unit = "cores"' in text
    text = text.replace('count = { value = 1, unit = "cores"', f'count = {{ value = {cores}, unit = "cores"')
    if cores > 1:
        text = text.replace('scratchpads = { value = "shared"', 'scratchpads = { value = "own"')
    return text.replace('preset = { value = "constant"', 'preset = { value = "hbm2_2000"') if cores > 1 else text


class TestExportSchedule(TestCase):
    def setUp(self):
        super().setUp()
        gc.collect()  # programs of other tests hold pages of the scratchpads
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name: str) -> Path:
        return Path(self.folder.name) / name

    @parametrize("name", list(MODELS))
    def test_the_estimate_is_what_a_run_is_charged(self, name):
        exported, args = built(name)
        report = torch_atalla.save_loadable(exported, self.path("m.atl"))
        self.assertEqual(len(report.launch_cycles), report.launches)
        self.assertEqual(report.estimate_cycles, sum(item.cycles for item in report.launch_cycles))
        self.assertEqual(report.residents, 0)
        program = torch_atalla.load_loadable(self.path("m.atl"))
        inputs = [arg.to("atalla") for arg in args]
        torch_atalla.telemetry.reset()
        first = torch_atalla.telemetry.launches()[-1].sequence + 1 if torch_atalla.telemetry.launches() else 0
        program(*inputs)
        torch.atalla.synchronize()
        torch_atalla.telemetry.counters()
        found = torch_atalla.telemetry.launches(since=first)
        self.assertEqual([item.cycles for item in found][: report.launches], [i.cycles for i in report.launch_cycles])

    def test_code_of_several_files(self):
        """Each has its own temporaries in the scratchpads while it runs, and its launches take what its code takes."""
        path = self.path("m.atl")
        module, (x,) = mlp()
        exported = torch.export.export(module.eval().bfloat16(), (x.bfloat16(),))
        report = torch_atalla.save_loadable(exported, path, engine="isa")
        self.assertGreater(report.residents, 0)
        first, second = torch_atalla.driver.runtime.Program(str(path)), torch_atalla.driver.runtime.Program(str(path))
        try:
            for program in (first, second):
                program.load(0)
            for program in (first, second):
                self.assertEqual(program.estimate(), report.estimate_cycles)
                program.verify()
        finally:
            for program in (first, second):
                program.close()

    @parametrize("cores", [2, 4])
    def test_division_on_a_chip_with_cores(self, cores):
        """The device of another process has so many cores with scratchpads of their own."""
        config = self.path("chip.toml")
        config.write_text(config_with(cores))
        code = (
            "import sys, torch, torch_atalla\n"
            "sys.path.insert(0, sys.argv[1])\n"
            "from test_export_schedule import built\n"
            "exported, args = built('block')\n"
            "exported = torch.export.export(exported.module().bfloat16(), tuple(x.bfloat16() for x in args))\n"
            "report = torch_atalla.save_loadable(exported, sys.argv[2], engine='isa')\n"
            "inputs = [arg.to('atalla', torch.bfloat16) for arg in args]\n"
            "eager = torch.no_grad()(exported.module().to('atalla'))(*inputs)\n"
            "torch.testing.assert_close(torch_atalla.load_loadable(sys.argv[2])(*inputs), eager, rtol=0, atol=0.05)\n"
            "assert torch.atalla.get_device_properties().multi_processor_count == int(sys.argv[3])\n"
            "print(report.cores)\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, str(Path(__file__).parent), str(self.path("m.atl")), str(cores)],
            env=os.environ | {"ATALLA_CHIP_CONFIG": str(config)},
            capture_output=True,
            text=True,
        )
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        self.assertIn(int(done.stdout.split()[-1]), range(2, cores + 1))


instantiate_parametrized_tests(TestExportSchedule)
