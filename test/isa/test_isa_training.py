# SPDX-License-Identifier: BSD-3-Clause
"""Training steps as Atalla code: loss, gradients and the optimizer's update, against the functional engine."""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
import warnings
from pathlib import Path

import torch
import torch.nn.functional as F
import training_models
from torch import nn
from torch.testing._internal.common_utils import (
    TestCase,
    instantiate_parametrized_tests,
    parametrize,
    slowTest,
    subtest,
)

import torch_atalla
from torch_atalla.compiler.targets.chip.build import compile_model
from torch_atalla.compiler.targets.chip.check import check_network

warnings.filterwarnings("ignore", category=FutureWarning)


class TestTraining(TestCase):
    def train(self, task, optimizer, steps=4, within=0.02):
        """Steps on both engines, from one file. Saving it checks every stored value of the first step."""
        model, loss, args = task
        step = torch_atalla.TrainingStep(model, loss, optimizer, args)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "step.atl")
            report = torch_atalla.save_loadable(step, path, args=args, engine="isa", fallback="error")
            chip = torch_atalla.load_loadable(path, engine="isa")
            functional = torch_atalla.load_loadable(path)
        given = [x.to("atalla") for x in args]
        found = torch.tensor([[engine(*given).item() for engine in (chip, functional)] for _ in range(steps)])
        self.assertLess(found[-1].max(), found[0].min())
        apart = (found[:, 0] - found[:, 1]).abs()
        self.assertLessEqual(apart.max(), within * found[0, 1])
        return report

    def test_gpt(self):
        task = training_models.gpt(vocabulary=32, length=8)
        self.train(task, torch.optim.SGD(task[0].parameters(), 0.2))

    def test_resnet(self):
        task = training_models.resnet()
        report = self.train(task, torch.optim.SGD(task[0].parameters(), 0.05, momentum=0.9), steps=3, within=0.05)
        self.assertLess(report.code["scalar_calls"], 20)

    def test_guide(self):
        """The example of docs/guides/compile.md."""
        text = (Path(__file__).parents[2] / "docs/guides/compile.md").read_text()
        code = text.split("## A training step as chip code", 1)[1].split("```python\n", 1)[1].split("```", 1)[0]
        printed = io.StringIO()
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(printed):
            exec(code.replace("step.atl", os.path.join(folder, "step.atl")), {})
        self.assertEqual(printed.getvalue(), "True\n")

    @slowTest
    def test_gpt_adam(self):
        task = training_models.gpt(vocabulary=256, width=64, heads=4, length=32)
        self.train(task, torch.optim.AdamW(task[0].parameters(), 3e-3))

    @slowTest
    def test_resnet18(self):
        task = training_models.resnet((64, 128, 256, 512), blocks=2, size=64)
        self.train(task, torch.optim.SGD(task[0].parameters(), 0.02, momentum=0.9), within=0.1)

    @parametrize(
        "kind,options",
        [
            subtest(("Adam", {"amsgrad": True, "weight_decay": 0.1}), name="Adam"),
            subtest(("AdamW", {"maximize": True}), name="AdamW"),
            subtest(("SGD", {"lr": 0.1, "nesterov": True, "momentum": 0.9, "weight_decay": 0.1}), name="SGD"),
            subtest(("RMSprop", {}), name="RMSprop"),
        ],
    )
    def test_optimizers(self, kind, options):
        """Two steps of the module equal two of the optimizer; the code of one is checked."""
        torch.manual_seed(0)
        model, args = nn.Linear(8, 4).bfloat16(), (torch.randn(6, 8).bfloat16(), torch.randn(6, 4).bfloat16())
        optimizer = getattr(torch.optim, kind)(model.parameters(), **options)
        step = torch_atalla.TrainingStep(model, F.mse_loss, optimizer, args)
        for _ in range(2):
            expected = F.mse_loss(model(args[0]), args[1])
            self.assertEqual(step(*args), expected.detach())
            optimizer.zero_grad()
            expected.backward()
            optimizer.step()
        for name, value in model.state_dict().items():
            self.assertEqual(step.model_tensors()[name], value, atol=1e-3, rtol=2**-7)
        check_network(compile_model(step, args), list(args))

    def test_converted(self):
        """A float32 model: its parameters and momenta become bfloat16."""
        torch.manual_seed(0)
        model, args = nn.Sequential(nn.Linear(8, 4), nn.BatchNorm1d(4)), (torch.randn(6, 8), torch.randn(6, 4))
        optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
        step = torch_atalla.TrainingStep(model, F.mse_loss, optimizer, args)
        compiled = compile_model(step, args, convert=True)
        self.assertEqual({port.dtype for port, _ in compiled.network.states.values()}, {torch.bfloat16, torch.int64})
        check_network(compiled)

    def test_first_step_with_dampening(self):
        model, args = nn.Linear(8, 4), (torch.randn(6, 8), torch.randn(6, 4))
        optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, dampening=0.5)
        with self.assertRaisesRegex(ValueError, "dampening"):
            torch_atalla.TrainingStep(model, F.mse_loss, optimizer, args)


instantiate_parametrized_tests(TestTraining)
