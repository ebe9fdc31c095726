# SPDX-License-Identifier: BSD-3-Clause
"""The kernels of the narrower instruction sets, which the machine at hand would not choose by itself."""

import json
import os
import subprocess
import sys
import unittest

from torch.testing._internal.common_utils import TestCase

from torch_atalla.cli import info

# Runs a fixed set of ops and prints their results as hexadecimal bytes.
PROGRAM = """
import json, torch, torch_atalla
torch.manual_seed(0)
results = {}
def keep(name, t):
    results[name] = t.cpu().contiguous().view(torch.uint8).numpy().tobytes().hex()
for m, n, k in [(64, 64, 64), (130, 70, 300), (40, 50, 2500), (1, 512, 512), (20, 100, 700)]:
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        a, b = torch.randn(m, k).to(dtype), torch.randn(k, n).to(dtype)
        keep(f"mm {m} {n} {k} {dtype}", a.to("atalla") @ b.to("atalla"))
image, taps = torch.randn(1, 40, 20, 23).to("atalla"), torch.randn(35, 40, 3, 3).to("atalla")
keep("mm of a convolution", torch.nn.functional.conv2d(image, taps, padding=1))
bytes_ = torch.randint(-128, 128, (40, 70), dtype=torch.int8).to("atalla")
keep("mm of bytes", torch._int_mm(bytes_, bytes_.t().contiguous()))
x = torch.randn(37, 300)
for name in ("exp", "erf", "tanh", "sigmoid", "sin", "log1p", "sqrt", "reciprocal"):
    keep(f"pointwise {name}", getattr(torch, name)(x.abs().to("atalla")))
keep("pointwise add", x.to("atalla") + 1)
keep("pointwise half", x.half().to("atalla") * 3)
keep("reduce sum", x.to("atalla").sum(1))
keep("reduce amax", x.to("atalla").amax(0))
keep("softmax", torch.softmax(x.to("atalla"), -1))
keep("layer_norm", torch.nn.functional.layer_norm(x.to("atalla"), (300,)))
keep("index_select", x.to("atalla").index_select(1, torch.arange(0, 300, 7).to("atalla")))
print(json.dumps(results))
"""


def results(isa: str) -> dict[str, str]:
    env = os.environ | {"ATALLA_ISA": isa, "TORCH_ATALLA_FALLBACK": "error"}
    child = subprocess.run([sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, timeout=300)
    if child.returncode:
        raise AssertionError(child.stderr)
    return json.loads(child.stdout)


@unittest.skipUnless("baseline" in info.build_info()["isas"], "built for the host only: make test-isas")
class TestInstructionSets(TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.by_isa = {isa: results(isa) for isa in ("baseline", "avx2", "avx512")}

    def test_exact_ops_agree(self):
        """What IEEE 754 defines, and what is only moved, is the same on every host."""
        for name in ("pointwise add", "pointwise half", "pointwise sqrt", "reduce amax", "index_select"):
            for isa in ("avx2", "avx512"):
                self.assertEqual(self.by_isa[isa][name], self.by_isa["baseline"][name], msg=f"{name} {isa}")

    def test_products_agree(self):
        """AVX2 and AVX-512 sum a product in one order (docs/concepts/gemm.md)."""
        names = [n for n in self.by_isa["avx2"] if n.startswith("mm")]
        self.assertEqual(len(names), 17)
        for name in names:
            self.assertEqual(self.by_isa["avx2"][name], self.by_isa["avx512"][name], msg=name)

    def test_all_close(self):
        import torch

        for name, reference in self.by_isa["avx512"].items():
            dtype = torch.float32
            for candidate in (torch.float64, torch.bfloat16):
                dtype = candidate if str(candidate) in name else dtype
            dtype = {"pointwise half": torch.float16, "mm of bytes": torch.int32}.get(name, dtype)
            expected = torch.frombuffer(bytearray.fromhex(reference), dtype=dtype)
            rtol = 1.6e-2 if dtype == torch.bfloat16 else 2e-6
            for isa in ("baseline", "avx2"):
                actual = torch.frombuffer(bytearray.fromhex(self.by_isa[isa][name]), dtype=dtype)
                torch.testing.assert_close(actual, expected, rtol=rtol, atol=2e-5)
