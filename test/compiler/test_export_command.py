# SPDX-License-Identifier: BSD-3-Clause
"""`python -m torch_atalla compile`, what it dumps, and the source lines in what it writes."""

from __future__ import annotations

import contextlib
import io
import tempfile
import warnings
from pathlib import Path
from typing import Any

import models
import torch
from export_suite import Fn
from torch import nn
from torch.nn import functional as F
from torch.testing._internal.common_utils import TestCase, instantiate_parametrized_tests, parametrize

import torch_atalla
from torch_atalla.__main__ import main
from torch_atalla.compiler.passes.graph import PassResult
from torch_atalla.loadable.description import describe

warnings.filterwarnings("ignore", category=FutureWarning)


def command(*arguments: str | Path) -> tuple[int, str, str]:
    """Exit code, stdout, stderr."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as error:
            code = int(error.code or 0)
    return code, out.getvalue(), err.getvalue()


class Cached(nn.Module):
    """Writes its buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.register_buffer("total", torch.zeros(2, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.gelu(self.linear(x))
        self.total.add_(y)
        return y * 2


class TestCompile(TestCase):
    def setUp(self) -> None:
        super().setUp()
        torch.manual_seed(0)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def save(self, module: nn.Module, *args: torch.Tensor, name: str = "program.pt2") -> Path:
        path = self.folder / name
        torch.export.save(torch.export.export(module.eval(), args), path)
        return path

    def test_loadable_gives_what_the_program_gives(self) -> None:
        model, x = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 4)), torch.randn(3, 16)
        source, output = self.save(model, x), self.folder / "model.atl"
        code, out, err = command("compile", source, "-o", output, "--fallback", "error", "--optimize", "fast")
        self.assertEqual((code, err), (0, ""))
        self.assertIn("2 launches", out)
        found = torch_atalla.load_loadable(output)(x.to("atalla")).cpu()
        self.assertEqual(found, model(x), rtol=1e-5, atol=1e-5)

    def test_output_is_named_after_the_program(self) -> None:
        source = self.save(nn.ReLU(), torch.randn(3), name="net.pt2")
        self.assertEqual(command("compile", source)[0], 0)
        self.assertTrue((self.folder / "net.atl").is_file())

    def test_methods(self) -> None:
        linear = nn.Linear(8, 8)
        long, short = self.save(linear, torch.randn(5, 8), name="a.pt2"), self.save(linear, torch.randn(1, 8))
        output = self.folder / "both.atl"
        self.assertEqual(command("compile", f"prefill={long}", f"decode={short}", "-o", output)[0], 0)
        self.assertEqual([method["name"] for method in describe(str(output))["methods"]], ["prefill", "decode"])
        code, _, err = command("compile", long, short, "-o", output)
        self.assertEqual(code, 2)
        self.assertIn("give each a name of its own", err)

    def test_errors(self) -> None:
        output = self.folder / "model.atl"
        code, _, err = command("compile", self.folder / "missing.pt2", "-o", output)
        self.assertEqual(code, 1)
        self.assertIn("missing.pt2: no such file", err)
        text = self.folder / "text.pt2"
        text.write_text("no archive")
        code, _, err = command("compile", text, "-o", output)
        self.assertEqual(code, 1)
        self.assertIn("expected a program that torch.export.save wrote", err)
        source = self.save(Fn(lambda m, x: torch.linalg.pinv(x)), torch.randn(3, 3))
        code, _, err = command("compile", source, "-o", output, "--fallback", "error")
        self.assertEqual(code, 1)
        self.assertIn("cannot run on the chip", err)
        self.assertFalse(output.exists())

    def test_dump_has_every_pass_before_and_after(self) -> None:
        source, dump = self.save(models.Mlp(), torch.randn(8, 32)), self.folder / "dump"
        code, _, err = command("compile", source, "-o", self.folder / "m.atl", "--dump", dump, "--optimize", "fast")
        self.assertEqual((code, err), (0, ""))
        names = [path.name for path in sorted(dump.iterdir())]
        stages = [name.partition("-")[2] for name in names if name[0].isdigit()]
        graphs = [name.removesuffix(".graph.txt") for name in stages if name.endswith(".graph.txt")]
        programs = [name.removesuffix(".program.txt") for name in stages if name.endswith(".program.txt")]
        # Before the first pass stands what capture and linearize gave; each pass's result is the next one's input.
        self.assertEqual((graphs[0], programs[0]), ("capture", "linearize"))
        done = (dump / next(name for name in names if name.endswith("-passes.txt"))).read_text().splitlines()
        self.assertEqual(graphs[1:] + programs[1:], [line.partition(":")[0] for line in done])
        self.assertEqual({f"{name}.graph.svg" for name in graphs} - set(stages), set())
        for text in ("plan.txt", "plan.svg"):
            self.assertIn(text, stages)
        listing = (dump / "listing.txt").read_text()
        for title in ("linear program", "memory plan", "weights"):
            self.assertIn(title, listing)

    def test_pass_results_print(self) -> None:
        self.assertEqual(str(PassResult("name", ("a", "b"))), "name: 2 nodes (a, b)")


PROGRAMS: dict[str, tuple[nn.Module, tuple[Any, ...]]] = {
    "chain": (Fn(lambda m, x: (x.tanh() * 2 + 1).relu()), (torch.randn(4, 5),)),
    "state": (Cached(), (torch.randn(2, 8),)),
    "input is returned": (Fn(lambda m, x: (x, x.exp())), (torch.randn(3),)),
    "constant is returned": (Fn(lambda m, x: (x + 1, torch.arange(3))), (torch.randn(3),)),
    "fallback": (models.HostOpInTheMiddle(), (torch.randn(4, 8),)),
    "spelled out": (
        Fn(lambda m, x: (x @ x.mT * 0.3).softmax(-1) @ x * (x.pow(2).mean(-1, True) + 1e-6).rsqrt()),
        (torch.randn(2, 6, 6),),
    ),
    "norm": (
        nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.RMSNorm(144, 1e-6)),
        (torch.randn(2, 3, 8, 8),),
    ),
    "vit": models.seed_models()["vit_block"],
}


class TestSourceLines(TestCase):
    @parametrize("name", list(PROGRAMS))
    @parametrize("level", ["none", "exact", "fast"])
    def test_every_instruction_has_one(self, name: str, level: str) -> None:
        module, args = PROGRAMS[name]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.atl"
            torch_atalla.save_loadable(module.eval(), path, args=args, optimize=level, verify=False, golden=False)
            data = describe(str(path))
        self.assertGreater(len(data["instructions"]), 0)
        for number, inst in enumerate(data["instructions"]):
            if inst["node"] is None:  # what the program returns as it got it: no op stands in the source
                target, given = (data["storages"][operand["storage"]]["space"] for operand in inst["operands"])
                self.assertEqual((target, given in ("input", "weights")), ("output", True))
                continue
            self.assertRegex(data["nodes"][inst["node"]]["source"], r"^\w+\.py:\d+$", f"instruction {number}")


instantiate_parametrized_tests(TestSourceLines)
