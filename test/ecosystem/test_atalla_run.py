# SPDX-License-Identifier: BSD-3-Clause
"""atalla-run and the C++ header: everything that a loadable can do, in processes without Python and PyTorch."""

import json
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.testing._internal.common_utils import TestCase

import torch_atalla
from torch_atalla.cli.config import paths

ROOT = Path(__file__).resolve().parents[2]
RUN = Path(torch_atalla.__file__).parent / "bin/atalla-run"


def run(*words, status=0):
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, timeout=120)
    assert done.returncode == status, f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


class Block(nn.Module):
    """Attention over a cache with rotary positions, and a gated MLP."""

    def __init__(self, width, heads, length):
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.norm1, self.norm2 = RmsNorm(width), RmsNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.gate, self.up = (nn.Linear(width, 2 * width, bias=False) for _ in range(2))
        self.down = nn.Linear(2 * width, width, bias=False)
        self.register_buffer("k", torch.zeros(1, heads, length, self.size))
        self.register_buffer("v", torch.zeros(1, heads, length, self.size))
        angles = torch.outer(torch.arange(length), 1e4 ** (-torch.arange(0, self.size, 2) / self.size))
        self.register_buffer("cos", angles.cos().repeat(1, 2))
        self.register_buffer("sin", angles.sin().repeat(1, 2))

    def rotate(self, x, position):
        left, right = x.chunk(2, -1)
        return x * self.cos[position] + torch.cat([-right, left], -1) * self.sin[position]

    def forward(self, x, position, mask):
        b, t, c = x.shape
        q, k, v = (part.view(b, t, self.heads, -1).transpose(1, 2) for part in self.qkv(self.norm1(x)).chunk(3, -1))
        self.k[:, :, position] = self.rotate(k, position)
        self.v[:, :, position] = v
        y = nn.functional.scaled_dot_product_attention(self.rotate(q, position), self.k, self.v, attn_mask=mask)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        h = self.norm2(x)
        return x + self.down(nn.functional.silu(self.gate(h)) * self.up(h))


class Llama(nn.Module):
    """A decoder of the Llama family, small, with a cache of keys and values."""

    def __init__(self, vocabulary=96, width=64, heads=4, layers=2, length=144):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(Block(width, heads, length) for _ in range(layers))
        self.norm = RmsNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.length = length

    def forward(self, ids, position):
        mask = torch.arange(self.length)[None, :] <= position[:, None]
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x, position, mask)
        return self.head(self.norm(x))


class TestDecoding(TestCase):
    """128 tokens, greedily: eager mode, Python and atalla-run agree."""

    @pytest.fixture(autouse=True)
    def folder(self, tmp_path):
        self.tmp = tmp_path

    def test_prefill_and_decode(self):
        torch.manual_seed(1)
        model, steps = Llama().eval(), 128
        prompt, positions = torch.tensor([[5, 17, 3, 42, 8]]), torch.arange(5)
        eager = []
        with torch.no_grad():
            n = torch.export.Dim("n", min=2, max=32)
            shapes = ({1: n}, {0: n})
            methods = {
                "prefill": torch.export.export(model, (prompt, positions), dynamic_shapes=shapes),
                "decode": torch.export.export(model, (prompt[:, :1], positions[:1])),
            }
            logits = model(prompt, positions)
            for step in range(steps):
                eager.append(int(logits[0, -1].argmax()))
                logits = model(torch.tensor([[eager[-1]]]), torch.tensor([5 + step]))
        path = self.tmp / "llama.atl"
        torch_atalla.save_loadable(methods, path, fallback="error")
        program = torch_atalla.load_loadable(path)
        found = []
        logits = program["prefill"](prompt.to("atalla"), positions.to("atalla"))
        for step in range(steps):
            found.append(int(logits[0, -1].argmax()))
            token = torch.tensor([[found[-1]]]).to("atalla")
            logits = program["decode"](token, torch.tensor([5 + step]).to("atalla"))
        self.assertEqual(found, eager)
        np.save(self.tmp / "ids.npy", prompt.numpy())
        np.save(self.tmp / "positions.npy", positions.numpy())
        text = run(
            *(RUN, path, "--method", "prefill", "--input", self.tmp / "ids.npy", "--input", self.tmp / "positions.npy"),
            *("--greedy", steps, "--position", 1, "--output", self.tmp / "tokens.npy"),
        )
        self.assertEqual(np.load(self.tmp / "tokens.npy").tolist(), eager)
        self.assertRegex(text, r"tokens \d+ .*\n.*tokens/s\n\d+ cycles and [\d.e-]+ J per token")


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.full((3,), 2.0))
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x):
        self.total.add_(x.sum(0))
        return x * self.scale + self.total


class TestAtallaRun(TestCase):
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path):
        self.tmp = tmp_path
        self.path = tmp_path / "model.atl"
        n = torch.export.Dim("n", min=1, max=8)
        exported = torch.export.export(Counter(), (torch.ones(2, 3),), dynamic_shapes=({0: n},))
        torch_atalla.save_loadable(exported, self.path, fallback="error")

    def save(self, name, array):
        np.save(self.tmp / name, array)
        return self.tmp / name

    def test_dynamic_sizes_states_and_parameters(self):
        x, y = self.save("x.npy", np.ones((4, 3), np.float32)), self.tmp / "y.npy"
        run(RUN, self.path, "--input", x, "--output", y)
        self.assertEqual(np.load(y).tolist(), [[6.0] * 3] * 4)
        total = self.save("total.npy", np.full(3, 10, np.float32))
        scale = self.save("scale.npy", np.full(3, -1, np.float32))
        run(
            *(RUN, self.path, "--input", x, "--output", y, "--set", f"total={total}", "--set", f"scale={scale}"),
            *("--get", f"total={self.tmp / 'after.npy'}"),
        )
        self.assertEqual(np.load(y).tolist(), [[13.0] * 3] * 4)
        self.assertEqual(np.load(self.tmp / "after.npy").tolist(), [14.0] * 3)

    def test_raw_buffers(self):
        raw, out = self.tmp / "x.bin", self.tmp / "y.bin"
        raw.write_bytes(np.arange(6, dtype=np.float32).tobytes())
        run(RUN, self.path, "--shape", "2x3", "--input", raw, "--output", out)
        self.assertEqual(np.frombuffer(out.read_bytes(), np.float32).tolist(), [3, 7, 11, 9, 13, 17])

    def test_information(self):
        text = run(RUN, self.path, "--info")
        for part in ("format 1.5", "input   x: [1 to 8, 3] <f4", "parameter scale: [3] <f4", "state total: [3] <f4"):
            self.assertIn(part, text)
        self.assertEqual(json.loads(run(RUN, self.path, "--describe"))["states"][0]["name"], "total")
        self.assertIn("1 golden output as expected", run(RUN, self.path, "--verify"))

    def test_times_and_traces(self):
        x = self.save("x.npy", np.ones((2, 3), np.float32))
        text = run(RUN, self.path, "--input", x, "--repeat", 5, "--warmup", 2, "--trace", self.tmp / "t.json")
        self.assertRegex(text, r"5 runs, us: least [\d.]+, median [\d.]+")
        events = json.loads((self.tmp / "t.json").read_text())["traceEvents"]
        launches = int(re.search(r"(\d+) instructions", text)[1])
        self.assertEqual(sum(event["name"] != "copy" for event in events), 5 * launches)
        self.assertTrue(all(event["dur"] >= 0 for event in events))
        self.assertRegex(run(RUN, self.path, "--bench"), r"load_ms [\d.]+\nrun_us [\d.]+\npeak_bytes \d+")

    def test_errors(self):
        x = self.save("x.npy", np.ones((9, 3), np.float32))
        wide = self.save("wide.npy", np.ones((2, 3), np.float64))
        for words, text in (
            (("--input", x), "dimension 0 is 9, expected 1 to 8"),
            (("--input", wide), "has dtype float64, expected float32"),
            ((), "0 inputs given, expected 1"),
            (("--method", "other"), "no method 'other'; there are 'forward'"),
            (("--input", wide, "--set", f"nothing={wide}"), "no parameter or mutable buffer is named 'nothing'"),
            (("--input", wide, "--set", f"scale={wide}"), "has [2, 3] <f8, 'scale' is [3] <f4"),
        ):
            self.assertIn(text, run(RUN, self.path, *words, status=1))
        self.assertIn("unknown option --wrong", run(RUN, self.path, "--wrong", status=2))

    def test_help_names_every_option(self):
        text, source = run(RUN, "--help"), (ROOT / "csrc/runtime/tools/options.cpp").read_text()
        options = set(re.findall(r'"(--[a-z]+)"', source)) - {"--help"}
        self.assertGreater(len(options), 15)
        self.assertEqual([option for option in options if option not in text], [])

    def test_needs_no_torch(self):
        libraries = run("/usr/bin/ldd", RUN)
        self.assertIn("libatalla_runtime.so", libraries)
        self.assertNotIn("libtorch", libraries)
        self.assertNotIn("libpython", libraries)


class TestEngines(TestCase):
    """A file with Atalla code: atalla-run gives the bits that Python gives on each engine."""

    @pytest.fixture(autouse=True)
    def folder(self, tmp_path):
        self.tmp = tmp_path
        self.path = tmp_path / "code.atl"
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(40, 24), nn.GELU(), nn.Linear(24, 8)).eval()
        self.x = torch.randn(5, 40).bfloat16()
        torch_atalla.save_loadable(model, self.path, args=(self.x.float(),), engine="isa", convert="bfloat16")
        (tmp_path / "x.bin").write_bytes(self.x.view(torch.int16).numpy().tobytes())

    def test_both(self):
        for engine in ("functional", "isa"):
            program = torch_atalla.load_loadable(self.path, engine=engine)
            expected = program(self.x.to("atalla")).cpu()
            out = self.tmp / f"{engine}.bin"
            text = run(RUN, self.path, "--engine", engine, "--input", self.tmp / "x.bin", "--output", out)
            self.assertEqual(out.read_bytes(), expected.view(torch.int16).numpy().tobytes())
        stats = program.stats
        self.assertIn(f"{stats.packets} packets, {stats.instructions} instructions, {stats.cycles} cycles", text)
        self.assertIn(f"DMA {stats.dram_bytes_read} bytes read, {stats.dram_bytes_written} written", text)
        self.assertRegex(text, r"\nstalls, .*[a-z] \d+")

    def test_goldens_information_times_and_traces(self):
        for engine in ("functional", "isa"):
            self.assertIn("1 golden output as expected", run(RUN, self.path, "--verify", "--engine", engine))
            self.assertRegex(run(RUN, self.path, "--bench", "--engine", engine), r"\narena_bytes \d+\n")
        self.assertRegex(run(RUN, self.path, "--info"), r"\n  code    \d+ packets, arena \d+ bytes\n")
        trace = self.tmp / "t.json"
        run(RUN, self.path, "--engine", "isa", "--input", self.tmp / "x.bin", "--repeat", 3, "--trace", trace)
        names = [event["name"] for event in json.loads(trace.read_text())["traceEvents"]]
        self.assertEqual(names.count("isa.program"), 3)

    def test_errors(self):
        plain = self.tmp / "plain.atl"
        torch_atalla.save_loadable(nn.ReLU(), plain, args=(torch.ones(3),))
        text = f'{plain} has no Atalla code; save it with engine="isa"'
        self.assertIn(text, run(RUN, plain, "--engine", "isa", "--verify", status=1))
        text = "--engine expects functional or isa, not 'other'"
        self.assertIn(text, run(RUN, plain, "--engine", "other", status=2))
        words = ("--engine", "isa", "--set", f"0.weight={self.tmp / 'w.bin'}", "--input", self.tmp / "x.bin")
        (self.tmp / "w.bin").write_bytes(bytes(2 * 24 * 40))
        self.assertIn("has its parameters in packed form", run(RUN, self.path, *words, status=1))


class TestCpp(TestCase):
    def test_header_with_the_flags_of_the_pkg_config_file(self):
        """As a program outside of the tree builds: the header, the library, nothing else."""
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            fields = {}
            for line in (paths()["pkg_config"] / "atalla.pc").read_text().splitlines():
                name, colon, value = line.partition(":")
                if colon and name in ("Cflags", "Libs"):
                    fields[name] = value
            flags = (fields["Cflags"] + fields["Libs"]).replace("${includedir}", str(paths()["include_dir"]))
            flags = flags.replace("${libdir}", str(paths()["lib_dir"])).split()
            program = Path(folder) / "run_model"
            run(
                "g++",
                "-std=c++17",
                "-Wall",
                "-Wextra",
                "-Werror",
                ROOT / "examples/cpp/run_model.cpp",
                "-o",
                program,
                *flags,
            )
            path = Path(folder) / "model.atl"
            torch_atalla.save_loadable(nn.Linear(4, 2).eval(), path, args=(torch.ones(3, 4),), fallback="error")
            self.assertRegex(run(program, path), r"output of 6 elements, sum -?[\d.]+")
            (Path(folder) / "bad.atl").write_bytes(b"nothing")
            self.assertIn("run_model: ", run(program, Path(folder) / "bad.atl", status=1))

    def test_cmake_finds_the_package(self):
        import shutil
        import tempfile

        if shutil.which("cmake") is None:
            self.skipTest("cmake is not installed")
        with tempfile.TemporaryDirectory() as folder:
            run("cmake", "-S", ROOT / "examples/cpp", "-B", folder, f"-Datalla_DIR={paths()['cmake_dir']}")
            run("cmake", "--build", folder)
            path = Path(folder) / "model.atl"
            torch_atalla.save_loadable(nn.Linear(4, 2).eval(), path, args=(torch.ones(3, 4),), fallback="error")
            self.assertIn("output of 6 elements", run(Path(folder) / "run_model", path))
