# SPDX-License-Identifier: BSD-3-Clause
"""Files: goldens, signatures, files of older versions, and every changed byte of one with all kinds of content."""

from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from torch import nn
from torch.testing._internal.common_utils import TestCase

import torch_atalla
from torch_atalla.__main__ import main as command
from torch_atalla.driver import runtime
from torch_atalla.loadable import LoadableError
from torch_atalla.loadable.description import describe
from torch_atalla.loadable.errors import ExportError

CORPUS = Path(__file__).parents[1] / "data/loadables"


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 5)
        self.register_buffer("steps", torch.ones(1))

    def forward(self, x):
        self.steps.add_(1)
        return torch.tanh(self.linear(x)) * self.steps


def save(path, **options):
    torch.manual_seed(0)
    n = torch.export.Dim("n", min=1, max=16)
    exported = torch.export.export(Net(), (torch.randn(3, 6),), dynamic_shapes=({0: n},))
    return torch_atalla.save_loadable(exported, path, **{"fallback": "error", **options})


class TestFiles(TestCase):
    @pytest.fixture(autouse=True)
    def fixtures(self, tmp_path, capfd):
        self.path, self.capfd = tmp_path / "model.atl", capfd

    def command(self, *words, status=0):
        self.capfd.readouterr()
        self.assertEqual(command([str(word) for word in words]), status)
        captured = self.capfd.readouterr()
        return captured.out + captured.err

    # ------------------------------------------------------------------------------------------------------- goldens
    def test_goldens_are_replayed(self):
        save(self.path)
        (golden,) = describe(str(self.path))["goldens"]
        self.assertEqual((golden["method"], golden["seed"]), (0, 0))
        self.assertTrue(0 < golden["samples"] <= 64 and 0 < golden["rtol"] < 1e-3)
        self.assertIn("1 golden output as expected", self.command("verify", self.path))
        program = torch_atalla.load_loadable(self.path)
        self.assertEqual(program.verify(), 1)
        self.assertEqual(program.read_state("steps"), torch.ones(1))

    def test_another_seed_gives_other_goldens(self):
        save(self.path, seed=0)
        first = self.path.read_bytes()
        save(self.path, seed=1)
        self.assertEqual(describe(str(self.path))["goldens"][0]["seed"], 1)
        self.assertNotEqual(self.path.read_bytes(), first)

    def test_a_program_that_gives_something_else_is_found(self):
        save(self.path)
        program = torch_atalla.load_loadable(self.path)
        program.load_state_dict({"linear.bias": torch.full((5,), 0.5)})
        with self.assertRaisesRegex(LoadableError, r"golden 0, method 'forward', output 0, element \d+: .*, expected"):
            program.verify()

    def test_golden_positions_may_repeat(self):
        """Of several rows for one place in a cache the last stays, on the chip and in what the golden says."""

        class Cache(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.register_buffer("k", torch.zeros(1, 6, 128, 64))

            def forward(self, x: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
                self.k[:, :, position] = x.transpose(1, 2)  # in parallel on the CPU
                return self.k * 2

        modes = []
        run = torch.fx.Interpreter.run

        def recorded(*args: Any, **kwargs: Any) -> Any:
            modes.append(torch.are_deterministic_algorithms_enabled())
            return run(*args, **kwargs)

        args = (torch.randn(1, 64, 6, 64), torch.arange(64))
        with mock.patch.object(torch.fx.Interpreter, "run", recorded):
            torch_atalla.save_loadable(Cache(), self.path, args=args, fallback="error", verify=True)
        self.assertTrue(modes[-1])  # two threads may get it right by chance, so the mode is what is asked for
        self.assertIn("1 golden output as expected", self.command("verify", self.path))
        self.assertFalse(torch.are_deterministic_algorithms_enabled())

    def test_seeded_inputs_that_are_refused(self):
        module = nn.EmbeddingBag(10, 4, mode="sum")
        args = (torch.tensor([1, 2, 3, 9]), torch.tensor([0, 2]))
        with self.assertWarnsRegex(UserWarning, r"no golden outputs: PyTorch refuses seeded inputs \(offsets"):
            torch_atalla.save_loadable(module.eval(), self.path, args=args, seed=1)
        self.assertEqual(describe(str(self.path))["goldens"], [])

    def test_without_goldens(self):
        save(self.path, golden=False)
        self.assertEqual(describe(str(self.path))["goldens"], [])
        self.assertIn("0 golden outputs", self.command("verify", self.path))

    def test_random_programs_have_none(self):
        module = nn.Sequential(nn.Linear(4, 4), nn.Dropout()).train()
        torch_atalla.save_loadable(module, self.path, args=(torch.randn(2, 4),), fallback="cpu")
        self.assertEqual(describe(str(self.path))["goldens"], [])

    # ----------------------------------------------------------------------------------------------------- signatures
    def test_signed_files(self):
        ed25519 = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ed25519")
        key = ed25519.Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
        public = key.public_key().public_bytes_raw()
        save(self.path, sign=bytes(range(32)))
        x = torch.randn(3, 6)
        self.assertEqual(torch_atalla.load_loadable(self.path)(x.to("atalla")).shape, (3, 5))
        self.assertIn(f"signed by {public.hex()}", self.command("verify", self.path, "--key", public.hex()))
        other = self.command("verify", self.path, "--key", bytes(32).hex(), status=1)
        self.assertIn(f"the file is signed by {public.hex()}, expected {bytes(32).hex()}", other)

        from torch_atalla.loadable.file.signature import verify_signature

        signed = self.path.read_bytes()
        changed = bytearray(signed)
        changed[changed.index(b"linear.bias")] ^= 1
        with self.assertRaisesRegex(ExportError, "the signature does not fit"):
            verify_signature(bytes(changed), public)
        save(self.path)
        self.assertIn("the file is not signed", self.command("verify", self.path, "--key", public.hex(), status=1))
        with self.assertRaisesRegex(ExportError, "private key of 32 bytes, got 3"):
            save(self.path, sign=b"abc")

    # --------------------------------------------------------------------------------------------------------- damage
    def test_every_changed_byte_is_detected(self):
        """In a file with states, symbols, expressions, goldens: one changed bit, and all eight, of every byte."""
        save(self.path)
        data = bytearray(self.path.read_bytes())
        runtime.validate(data)
        missed = []
        for i, original in enumerate(data):
            for change in (1 << (i % 8), 0xFF):
                data[i] = original ^ change
                try:
                    runtime.validate(data)
                    missed.append((i, change))
                except runtime.RuntimeLibraryError:
                    pass
            data[i] = original
        self.assertEqual(missed, [])
        self.assertGreater(len(data), 8000)

    # --------------------------------------------------------------------------------------------------------- corpus
    def test_older_versions_load(self):
        names = [path.name for path in sorted(CORPUS.glob("*.atl"))]
        self.assertEqual({name.split("-")[0] for name in names}, {"1.0", "1.1", "1.2", "1.3", "1.4"})
        for path in sorted(CORPUS.glob("*.atl")):
            with self.subTest(path.name):
                program = torch_atalla.load_loadable(path)
                goldens = program.verify()
                self.assertEqual(goldens > 0, not path.name.startswith("1.0"))
                data = describe(str(path))
                self.assertEqual(data["format"], list(map(int, path.name.split("-")[0].split("."))))
                self.assertEqual(bool(data["code"]), path.name.endswith("-code.atl"))
                if data["code"]:
                    self.assertEqual(torch_atalla.load_loadable(path, engine="isa").verify(), goldens)

    def test_a_file_of_version_1_0_gives_what_it_gave(self):
        torch.manual_seed(0)
        a, b = nn.Linear(6, 8), nn.Linear(8, 4)
        program = torch_atalla.load_loadable(CORPUS / "1.0-mlp.atl")
        x = torch.linspace(-1, 1, 18).reshape(3, 6)
        with torch.no_grad():
            expected = b(torch.relu(a(x))).softmax(-1)
        self.assertEqual(program(x.to("atalla")).cpu(), expected, rtol=1e-5, atol=1e-6)

    # ------------------------------------------------------------------------------------------------------- packaging
    def test_config_names_what_is_installed(self):
        for option in ("--include-dir", "--lib-dir", "--cmake-dir", "--pkg-config"):
            self.assertTrue(Path(self.command("config", option).strip()).is_dir())
        include = Path(self.command("config", "--include-dir").strip())
        self.assertTrue({"atalla.h", "atalla_program.h", "atalla.hpp"} <= {path.name for path in include.iterdir()})
