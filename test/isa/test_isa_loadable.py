# SPDX-License-Identifier: BSD-3-Clause
"""Loadables with Atalla code: saved, inspected, and run on the device by both engines."""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
import warnings
from unittest import mock

import pytest
import torch
from torch import nn
from torch.testing._internal.common_utils import TestCase

import torch_atalla
from torch_atalla.cli.inspect import main as inspect
from torch_atalla.compiler import ExportError
from torch_atalla.compiler.targets.chip.network import NoProgramError
from torch_atalla.loadable.file import code_section as section
from torch_atalla.loadable.file.signature import verify_signature

warnings.filterwarnings("ignore", category=FutureWarning)


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(40, 70), nn.GELU(), nn.LayerNorm(70), nn.Linear(70, 10)).eval()


class TestCodeInLoadables(TestCase):
    def setUp(self):
        super().setUp()
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.path = os.path.join(self.directory.name, "model.atl")

    def save(self, **options):
        x = torch.randn(5, 40)
        report = torch_atalla.save_loadable(
            model(), self.path, args=(x,), engine="isa", convert="bfloat16", fallback="error", **options
        )
        return x, report

    def test_both_engines(self):
        x, report = self.save()
        self.assertEqual(report.engine, "isa")
        self.assertGreater(report.code["cosine"], 0.999)
        self.assertGreater(report.code["packets"], 100)
        self.assertIn("cosine", str(report))
        given = x.bfloat16().to("atalla")
        functional = torch_atalla.load_loadable(self.path)(given)
        program = torch_atalla.load_loadable(self.path, engine="isa")
        for _ in range(2):
            found = program(given)
            self.assertEqual(found.device.type, "atalla")
            self.assertEqual(found, functional, atol=0.03, rtol=0.03)
        self.assertEqual(found.cpu().float(), model()(x), atol=0.05, rtol=0.05)
        self.assertGreater(program.stats.cycles, 0)
        with self.assertRaisesRegex(ValueError, "expected dtype bfloat16, found float32"):
            program(x.to("atalla"))
        with self.assertRaisesRegex(TypeError, "structure"):
            program(given, given)

    def test_arguments_that_are_no_tensors_are_checked(self):
        class Scaled(nn.Module):
            def forward(self, x: torch.Tensor, *, factor: float, shift: float) -> torch.Tensor:
                return x * factor + shift

        x = torch.randn(4, 32, dtype=torch.bfloat16)
        given = {"factor": 2.0, "shift": 1.0}
        torch_atalla.save_loadable(Scaled(), self.path, args=(x,), kwargs=given, engine="isa")
        for engine in ("functional", "isa"):
            program = torch_atalla.load_loadable(self.path, engine=engine)
            self.assertEqual(program(x.to("atalla"), shift=1.0, factor=2.0).cpu(), x * 2 + 1)
            with self.assertRaisesRegex(ValueError, "expected the value 2.0 of the export, found 3.0"):
                program(x.to("atalla"), factor=3.0, shift=1.0)

    def test_signed(self):
        pytest.importorskip("cryptography")
        x, _ = self.save(sign=bytes(range(32)))
        with open(self.path, "rb") as file:
            data = bytearray(file.read())
        verify_signature(bytes(data))
        torch_atalla.load_loadable(self.path, engine="isa")(x.bfloat16().to("atalla"))
        code = section.find(bytes(data)).methods[0].code
        data[data.index(code)] ^= 1
        with self.assertRaisesRegex(ExportError, "the signature does not fit"):
            verify_signature(bytes(data))

    def test_wrong_code_is_refused(self):
        """A kernel that computes something else: nothing is written, and the first node that differs is named."""
        from torch_atalla.compiler.targets.chip.kernels import rows

        plan = rows.plan

        def wrong(kind, m, n, *more):
            calls = plan(kind, m, n, *more)
            for _, words, _ in calls:
                words["eps"] = 0x3F800000
            return calls

        with mock.patch.object(rows, "plan", wrong):
            with self.assertRaisesRegex(ExportError, "other values than the program: node layer_norm: .* expected"):
                self.save()
        self.assertEqual(os.listdir(self.directory.name), [])

    def test_listing(self):
        dump = os.path.join(self.directory.name, "dump")
        self.save(dump=dump)
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            self.assertEqual(inspect([self.path, "--asm"]), 0)
        self.assertIn("gemm.vv", out.getvalue())
        self.assertEqual(len(torch_atalla.isa.assemble(out.getvalue())), self.packets())
        with open(os.path.join(dump, "listing.s")) as file:
            self.assertEqual(file.read(), out.getvalue().removesuffix("\n"))

    def packets(self):
        with open(self.path, "rb") as file:
            return len(section.find(file.read()).methods[0].code) // 20

    def test_without_code(self):
        torch_atalla.save_loadable(model(), self.path, args=(torch.randn(5, 40),))
        with self.assertRaisesRegex(ValueError, "no Atalla code"):
            torch_atalla.load_loadable(self.path, engine="isa")
        error = io.StringIO()
        with contextlib.redirect_stderr(error):
            self.assertEqual(inspect([self.path, "--asm"]), 1)
        self.assertIn("no Atalla code", error.getvalue())

    def test_refused(self):
        class Sums(nn.Module):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return torch.cumsum(x, 0)

        x = torch.randn(4, 4).bfloat16()
        with self.assertRaisesRegex(NoProgramError, "cumsum"):
            torch_atalla.save_loadable(Sums(), self.path, args=(x,), engine="isa")
        self.assertFalse(os.path.exists(self.path))
        with self.assertRaisesRegex(NoProgramError, "bfloat16"):
            torch_atalla.save_loadable(nn.ReLU(), self.path, args=(x.float(),), engine="isa")
        with self.assertRaisesRegex(ExportError, "convert"):
            torch_atalla.save_loadable(nn.ReLU(), self.path, args=(x.float(),), engine="isa", convert="float16")
