# SPDX-License-Identifier: BSD-3-Clause
"""Pairs of vector registers: an array of 64 x 64, 64 x 32 or 32 x 64, in the engine, in generated code and in time."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from torch.testing._internal.common_utils import TestCase, instantiate_parametrized_tests, parametrize

from torch_atalla import isa
from torch_atalla.explorer.space import with_values
from torch_atalla.isa import ops

ROOT = Path(__file__).parents[2]
CHIP = (ROOT / "csrc/sim/chip.toml").read_text()


def on_chip(values: dict, command: list[str]) -> str:
    """What a process prints whose devices have this chip."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "chip.toml"
        path.write_text(with_values(CHIP, values))
        paths = os.pathsep.join(str(ROOT / name) for name in ("", "test/isa", "test/support"))
        env = os.environ | {"ATALLA_CHIP_CONFIG": str(path), "PYTHONPATH": paths}
        done = subprocess.run([sys.executable, *command], cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


ARRAY64 = {"array.rows": 64, "array.columns": 64, "array.latency_cycles": 85}

# Programs whose weights, sums and results are pairs, with values beyond what the fast path takes, and their timing.
ENGINE = """
import json, sys
import torch, torch_atalla
import test_isa_engine
from torch_atalla import isa

groups = int(sys.argv[1])
ended = [test_isa_engine.compare_with_reference(seed, 40, groups=groups)[0] for seed in range(60)]

def cycles(text):
    return isa.run(isa.assemble(text + "\\nhalt.s"), chip=0).cycles

row, push = f"gemm.vv v2, v4, v6, {groups}", "lw.vi v8, 1" if groups & 1 else "lw.vi v8"
found = {"halted": ended.count("halted"), "row": cycles(f"{row}\\nadd.vv v100, v2, v2")}
found["rows"] = cycles("\\n".join(f"gemm.vv v{40 + 2 * i}, v4, v6, {groups}" for i in range(8)))
found["pushes"] = cycles("\\n".join([push] * 8)) - cycles("\\n".join([push] * 7))
second = "add.vv v100, v3, v3" if groups & 2 else "add.vv v100, v2, v2"
found["second"] = cycles(f"{row}\\n{second}")
found["zeros"] = isa.run(isa.assemble("gemm.vv v2, v0, v0, 3\\nhalt.s" if groups == 3 else "halt.s"), chip=0).cycles > 0
print(json.dumps(found))
"""

CODE = """
import json
import torch, torch_atalla
from torch_atalla.compiler.targets.chip.build import compile_model
from torch_atalla.compiler.targets.functional.pipeline import device_chip
from torch_atalla.compiler.capture.narrow import to_bfloat16

torch.manual_seed(0)

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = torch.nn.Conv2d(32, 64, 3, padding=1)
        self.first, self.second = torch.nn.Linear(64, 224), torch.nn.Linear(224, 64)

    def forward(self, image):
        x = self.convolution(image).relu().flatten(2).transpose(1, 2)
        q = x.unflatten(2, (1, 64)).transpose(1, 2)
        x = x + torch.nn.functional.scaled_dot_product_attention(q, q, q).transpose(1, 2).flatten(2)
        return x + self.second(torch.nn.functional.gelu(self.first(x)))

model, image = Net().eval(), torch.randn(1, 32, 12, 12)
right = model(image)
found = {}
for name, chip in (("pairs", device_chip()), ("corner", None)):
    compiled = compile_model(model, (image,), convert=True, chip=chip)
    run = compiled.run([to_bfloat16(image)], chip=0)
    out = run.outputs[0].float()
    found[name] = {
        "cosine": torch.nn.functional.cosine_similarity(out.flatten(), right.flatten(), dim=0).item(),
        "cycles": run.stats.cycles,
        "functions": sorted(compiled.network.image.functions),
    }
print(json.dumps(found))
"""

SAVED = """
import sys
import torch, torch_atalla

torch.manual_seed(0)
model, x = torch.nn.Linear(96, 80).to(torch.bfloat16), torch.randn(48, 96).to(torch.bfloat16)
path = sys.argv[1]
torch_atalla.save_loadable(model, path, args=(x,), engine="isa", fallback="error")
found = torch_atalla.load_loadable(path, engine="isa")(x.to("atalla"))
torch.testing.assert_close(found.cpu(), model(x), atol=0.02, rtol=0.02)
"""

REFUSED = """
import torch, torch_atalla
from torch_atalla import isa

try:
    isa.launch(isa.assemble("halt.s"))
except RuntimeError as error:
    print(error)
"""

ARRAYS = {"both": (64, 64, 3), "rows": (64, 32, 1), "columns": (32, 64, 2)}


class TestEngine(TestCase):
    @parametrize("array", sorted(ARRAYS))
    def test_values_and_cycles(self, array):
        """Random programs against the Python reference, bit for bit; one row per cycle, and both registers of a result
        after the array's latency."""
        rows, columns, groups = ARRAYS[array]
        values = {"array.rows": rows, "array.columns": columns, "array.latency_cycles": 85}
        found = json.loads(on_chip(values, ["-c", ENGINE, str(groups)]).splitlines()[-1])
        self.assertGreater(found["halted"], 15)
        self.assertEqual(found["row"], 85 + 5)
        self.assertEqual(found["second"], found["row"])
        self.assertEqual(found["rows"], 7 + 85)
        self.assertEqual(found["pushes"], 1)

    def test_other_chips_refuse_pairs(self):
        for program, reason in (
            ("gemm.vv v2, v4, v6, 1", "names pairs of vectors of weights, for which array.rows has to be 64"),
            ("gemm.vv v2, v4, v6, 2", "names pairs of results, for which array.columns has to be 64"),
            ("lw.vi v2, 1", "names pairs of vectors of weights, for which array.rows has to be 64"),
        ):
            with self.assertRaisesRegex(isa.ExecutionError, reason):
                isa.run(isa.assemble(program + "\nhalt.s"))

    def test_other_sizes_are_refused(self):
        for key, value, reason in (("array.rows", 48, "lw.vi pushes"), ("array.columns", 128, "gemm.vv gives")):
            text = f"Atalla code does not run on a chip whose {key} is {value}; expected 32 or 64: {reason} a vector"
            self.assertIn(text, on_chip({key: value}, ["-c", REFUSED]))


class TestText(TestCase):
    def test_assembly(self):
        for text in ("gemm.vv v2, v4, v6, 3", "gemm.vv v2, v4, v6, 1", "lw.vi v2, 1", "gemm.vv v2, v4, v6"):
            program = isa.assemble(text + "\nhalt.s")
            self.assertIn(text, isa.disassemble(program))
        self.assertEqual(ops.gemm_vv(2, 4, 6, 3).encode() - ops.gemm_vv(2, 4, 6).encode(), 3 << 31)

    def test_checker(self):
        row = ops.gemm_vv(2, 4, 6, 3)
        self.assertEqual(row.reads(), (256 + 4, 256 + 5, 256 + 6, 256 + 7))
        self.assertEqual(row.writes(), (256 + 2, 256 + 3))
        self.assertEqual(ops.gemm_vv(0, 4, 0, 3).reads(), (256 + 4, 256 + 5))
        self.assertEqual(ops.gemm_vv(0, 4, 0, 3).writes(), ())
        for packet, text in (
            ([ops.gemm_vv(2, 5, 6, 3)], "names the pair of v5; a pair begins at an even register"),
            ([row, ops.vreg_st(8, 0, 0, 0, 32)], "more than 4 different v registers"),
            ([row, ops.add_vv(9, 3, 0)], "reads v3, which slot 0 writes"),
        ):
            self.assertIn(text, "; ".join(map(str, isa.check_packet(packet))))
        self.assertEqual(isa.check_packet([row, ops.vreg_st(7, 0, 0, 0, 32), ops.vreg_ld(8, 0, 0, 1, 32)]), [])


class TestCode(TestCase):
    def test_kernels(self):
        """The tests of products, attention and convolutions, with code for this array."""
        only = "MatrixProducts or ttention or convolutions"
        command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "test/isa/test_isa_codegen.py", "-k", only]
        self.assertRegex(on_chip(ARRAY64, command), r"\b1[0-9] passed")

    def test_network(self):
        found = json.loads(on_chip(ARRAY64, ["-c", CODE]).splitlines()[-1])
        for name in found:
            self.assertGreater(found[name]["cosine"], 0.999, msg=name)
        in_pairs = [name for name in found["pairs"]["functions"] if name.startswith(("gemm", "conv", "attention"))]
        self.assertGreaterEqual(len(in_pairs), 4)
        for name in in_pairs:
            self.assertRegex(name, "_group[123]")
        self.assertFalse([name for name in found["corner"]["functions"] if "_group3" in name])

    def test_loadable(self):
        with tempfile.TemporaryDirectory() as folder:
            on_chip(ARRAY64, ["-c", SAVED, str(Path(folder) / "model.atl")])


instantiate_parametrized_tests(TestEngine)

if __name__ == "__main__":
    from torch.testing._internal.common_utils import run_tests

    run_tests()
