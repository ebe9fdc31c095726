# SPDX-License-Identifier: BSD-3-Clause
"""Functions of libdevice that are made of several ops, against exact arithmetic on the host."""

import importlib.util
import math
import re
import struct
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.testing._internal.common_utils import TestCase, instantiate_parametrized_tests, parametrize, run_tests

triton = pytest.importorskip("triton", reason="the extra torch_atalla[triton] is not installed")

from triton.language.extra.cuda import libdevice  # noqa: E402

from torch_atalla.compiler.tile.arithmetic import LIBDEVICE  # noqa: E402
from torch_atalla.compiler.tile.rules.libdevice import FUNCTIONS  # noqa: E402

DEVICE = "atalla"
N = 64
HEAD = """
import triton
import triton.language as tl
from triton.language.extra import libdevice

@triton.jit
def kernel(x, y, z, out, N: tl.constexpr):
    i = tl.arange(0, N)
    a, b, c = tl.load(x + i), tl.load(y + i), tl.load(z + i)
"""
MODES = ("rz", "rd", "ru")


def wrapped(n, bits=32):
    n &= (1 << bits) - 1
    return n - (1 << bits) if n >> (bits - 1) else n


def bits_of(n, width):
    return format(n & ((1 << width) - 1), f"0{width}b")


def permuted(a, b, s):
    both = ((b & 0xFFFFFFFF) << 32) | (a & 0xFFFFFFFF)
    return wrapped(sum((both >> (8 * (s >> (4 * i) & 7)) & 0xFF) << (8 * i) for i in range(4)))


def of_integers(width):
    unsigned = (1 << width) - 1
    long = "" if width == 32 else "ll"
    cases = {
        "clz(a)": lambda a, b, c: bits_of(a, width).find("1") if a else width,
        "popc(a)": lambda a, b, c: bits_of(a, width).count("1"),
        "ffs(a)": lambda a, b, c: bits_of(a, width)[::-1].find("1") + 1,
        "brev(a)": lambda a, b, c: wrapped(int(bits_of(a, width)[::-1], 2), width),
        "mulhi(a, b)": lambda a, b, c: a * b >> width,
        "abs(a)": lambda a, b, c: wrapped(abs(a), width),
    }
    if long:
        return cases | {
            "ll2float_rn(a)": lambda a, b, c: float(np.float32(a)),
            "longlong_as_double(a)": lambda a, b, c: struct.unpack("<d", struct.pack("<q", a))[0],
            "ull2double_rn(a.to(tl.uint64))": lambda a, b, c: float(a & unsigned),
        }
    return cases | {
        "mul24(a, b)": lambda a, b, c: wrapped(wrapped(a << 8) // 256 * (wrapped(b << 8) // 256)),
        "mulhi(a.to(tl.uint32), b.to(tl.uint32)).to(tl.int32)": (
            lambda a, b, c: wrapped((a & unsigned) * (b & unsigned) >> 32)
        ),
        "sad(a, b, c.to(tl.uint32))": lambda a, b, c: wrapped(abs(a - b) + c),
        "hadd(a, b)": lambda a, b, c: a + b >> 1,
        "rhadd(a, b)": lambda a, b, c: a + b + 1 >> 1,
        "rhadd(a.to(tl.uint32), b.to(tl.uint32)).to(tl.int32)": (
            lambda a, b, c: wrapped((a & unsigned) + (b & unsigned) + 1 >> 1)
        ),
        "byte_perm(a, b, c)": permuted,
        "int_as_float(a & 0x7F7FFFFF)": lambda a, b, c: struct.unpack("<f", struct.pack("<i", a & 0x7F7FFFFF))[0],
        "hiloint2double(a & 0x7FEFFFFF, b)": (
            lambda a, b, c: struct.unpack("<d", struct.pack("<ii", b, a & 0x7FEFFFFF))[0]
        ),
        **{f"int2float_{mode}(a)": lambda a, b, c, mode=mode: directed(mode, a) for mode in MODES},
        "uint2float_rd(a.to(tl.uint32))": lambda a, b, c: directed("rd", a & unsigned),
    }


def directed(mode, exact):
    """The float32 next to an exact number, in a direction."""
    exact = Fraction(exact)
    with np.errstate(over="ignore"):
        near = np.float32(float(exact))
    if mode == "rz":
        mode = "rd" if exact > 0 else "ru"
    if mode == "rd" and (near == math.inf or Fraction(float(near)) > exact):
        near = np.nextafter(near, np.float32(-np.inf))
    if mode == "ru" and near != math.inf and (near == -math.inf or Fraction(float(near)) < exact):
        near = np.nextafter(near, np.float32(np.inf))
    return float(near)


def root(mode, x):
    """The square root, from one of so many digits that its sign of the error is right."""
    digits = 1 << 100
    exact = Fraction(math.isqrt(Fraction(x).numerator * digits**2 // Fraction(x).denominator), digits)
    return directed(mode, exact)


def saturated(x, least, most):
    return 0 if math.isnan(x) else max(least, min(most, x))


TO_INTEGER = {"rn": round, "rz": math.trunc, "rd": math.floor, "ru": math.ceil}
OF_FLOATS = {
    **{f"add_{m}(a, b)": lambda a, b, c, m=m: directed(m, Fraction(a) + Fraction(b)) for m in MODES},
    **{f"sub_{m}(a, b)": lambda a, b, c, m=m: directed(m, Fraction(a) - Fraction(b)) for m in MODES},
    **{f"mul_{m}(a, b)": lambda a, b, c, m=m: directed(m, Fraction(a) * Fraction(b)) for m in ("rz", "rd")},
    **{f"div_{m}(a, b)": lambda a, b, c, m=m: directed(m, Fraction(a) / Fraction(b)) for m in MODES},
    **{f"rcp_{m}(a)": lambda a, b, c, m=m: directed(m, 1 / Fraction(a)) for m in MODES},
    **{f"sqrt_{m}(libdevice.abs(a))": lambda a, b, c, m=m: root(m, abs(a)) for m in MODES},
    **{
        f"float2int_{m}(a)": lambda a, b, c, f=f: saturated(f(a), -(1 << 31), (1 << 31) - 1)
        for m, f in TO_INTEGER.items()
    },
    **{
        f"float2ll_{m}(a)": lambda a, b, c, f=f: saturated(f(a), -(1 << 63), (1 << 63) - 1)
        for m, f in TO_INTEGER.items()
    },
    "float2uint_rn(a)": lambda a, b, c: wrapped(saturated(round(a), 0, (1 << 32) - 1)),
    "float2ull_rd(a)": lambda a, b, c: wrapped(saturated(math.floor(a), 0, (1 << 64) - 1), 64),
    "float_as_int(a)": lambda a, b, c: struct.unpack("<i", struct.pack("<f", a))[0],
    "saturatef(a)": lambda a, b, c: saturated(a, 0.0, 1.0),
    "round(a)": lambda a, b, c: math.copysign(math.floor(abs(a) + 0.5) if abs(a) < 2**23 else abs(a), a),
    "llround(a)": lambda a, b, c: (
        saturated(int(math.copysign(math.floor(abs(a) + 0.5), a)), -(1 << 63), (1 << 63) - 1)
        if abs(a) < 2**23
        else int(a)
    ),
    "fdim(a, b)": lambda a, b, c: float(np.float32(max(a - b, 0.0))),
    "remainder(a, b)": lambda a, b, c: math.remainder(a, b),
    "ilogb(a)": lambda a, b, c: math.frexp(a)[1] - 1,
    "logb(a)": lambda a, b, c: float(math.frexp(a)[1] - 1),
}
CLOSE = {  # within a few units in the last place
    "sinpi(b)": lambda a, b, c: float(
        math.copysign(math.sin(math.pi * math.remainder(b, 2.0)), math.remainder(b, 2.0))
    ),
    "cospi(b)": lambda a, b, c: math.cos(math.pi * math.remainder(b, 2.0)),
    "cbrt(a)": lambda a, b, c: math.cbrt(a),
    "rcbrt(a)": lambda a, b, c: 1 / math.cbrt(a),
    "rhypot(b, c)": lambda a, b, c: 1 / math.hypot(b, c),
    "norm3d(b, c, c)": lambda a, b, c: math.hypot(b, c, c),
    "rnorm3d(b, c, c)": lambda a, b, c: 1 / math.hypot(b, c, c),
    "normcdf(c)": lambda a, b, c: 0.5 * math.erfc(-c * math.sqrt(0.5)),
    "pow(c, b.to(tl.int32) % 8)": lambda a, b, c: c ** math.fmod(math.trunc(b), 8),
    "ldexp(c, b.to(tl.int32) % 8)": lambda a, b, c: math.ldexp(c, int(math.fmod(math.trunc(b), 8))),
    "fast_dividef(b, c)": lambda a, b, c: b / c,
    "fast_expf(c)": lambda a, b, c: math.exp(c),
}


def floats(dtype):
    """Of many sizes, of moderate size, and about 1; no zeros among the second and third."""
    generator = torch.Generator().manual_seed(3)
    many = torch.randn(N, generator=generator) * 2.0 ** torch.randint(-30, 62, (N,), generator=generator)
    some = torch.randn(N, generator=generator) * 20
    some[:6] = torch.tensor([0.5, 1.5, 2.5, -0.5, -2.5, 3.25])
    near = torch.rand(N, generator=generator) + 0.5
    many[:6] = torch.tensor([0.5, 1.5, 2.5, -0.5, -2.5, 1e-40])
    return [x.to(dtype) for x in (many, some, near)]


class TestLibdevice(TestCase):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path):
        self.folder = tmp_path

    def run_all(self, cases, inputs):
        """The results of all expressions, as float64 and as int64."""
        lines = [f"    r{k} = libdevice.{expression}\n    tl.store(out + {k} * N + i, r{k}.to(tl.float64))\n"
                 f"    tl.store(out + {len(cases) + k} * N + i, r{k}.to(tl.int64).to(tl.float64, bitcast=True))\n"
                 for k, expression in enumerate(cases)]  # fmt: skip
        path = self.folder / "libdevice_kernel.py"
        path.write_text(HEAD + "".join(lines))
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        out = torch.empty(2, len(cases), N, dtype=torch.float64, device=DEVICE)
        module.kernel[(1,)](*(x.to(DEVICE) for x in inputs), out, N=N)
        return out[0].cpu(), out[1].cpu().view(torch.int64)

    def check(self, cases, inputs, tolerance=0.0):
        numbers, integers = self.run_all(cases, inputs)
        rows = list(zip(*(x.tolist() for x in inputs), strict=True))
        for k, (expression, reference) in enumerate(cases.items()):
            expected = [reference(*row) for row in rows]
            found = integers[k].tolist() if isinstance(expected[0], int) else numbers[k].tolist()
            for row, one, other in zip(rows, found, expected, strict=True):
                close = (
                    one == other
                    or (one != one and other != other)
                    or (tolerance and abs(one - other) <= tolerance * abs(other) + 1e-3 * tolerance)
                )
                self.assertTrue(close, f"libdevice.{expression} of {row}: {one}, expected {other}")

    @parametrize("width", [32, 64])
    def test_integers(self, width):
        generator = torch.Generator().manual_seed(1)
        dtype = torch.int32 if width == 32 else torch.int64
        x = torch.randint(-(1 << width - 1), (1 << width - 1) - 1, (3, N), generator=generator, dtype=torch.int64)
        x[0, :6] = torch.tensor([0, 1, -1, 8, -(1 << width - 1), (1 << width - 1) - 1])
        self.check(of_integers(width), [row.to(dtype) for row in x])

    def test_floats(self):
        self.check(OF_FLOATS, floats(torch.float32))

    @parametrize("dtype", [torch.float32, torch.float64])
    def test_close_floats(self, dtype):
        cases = {k: f for k, f in CLOSE.items() if dtype == torch.float32 or not k.startswith("fast")}
        self.check(cases, floats(dtype), 2e-6 if dtype == torch.float32 else 1e-13)

    def test_special_numbers(self):
        special = [0.0, -0.0, math.inf, -math.inf, math.nan, 1e-45, 3e38, -3e38] * (N // 8)
        x = torch.tensor(special)
        names = ["ilogb(a)", "logb(a)", "float2int_rn(a)", "float2ull_rz(a)", "add_rz(a, a)", "add_ru(a, a)", "cbrt(a)"]
        numbers, integers = self.run_all(names, [x, x, x])
        most = torch.finfo(torch.float32).max
        low, high = -(1 << 31), (1 << 31) - 1
        self.assertEqual(integers[0, :8].tolist(), [low, low, high, high, low, -149, 127, 127])
        self.assertEqual(numbers[1, :7].tolist()[:4], [-math.inf, -math.inf, math.inf, math.inf])
        self.assertEqual(integers[2, :8].tolist(), [0, 0, high, low, 0, 0, high, low])
        self.assertEqual(integers[3, :8].tolist(), [0, 0, -1, 0, 0, 0, -1, 0])
        self.assertEqual(numbers[4, 6:8].tolist(), [most, -most])
        self.assertEqual(numbers[5, 6:8].tolist(), [math.inf, -most])
        self.assertEqual(numbers[6, :4].tolist(), [0.0, -0.0, math.inf, -math.inf])
        self.assertTrue(all(math.isnan(numbers[k, 4]) for k in (1, 4, 5, 6)))

    def test_functions_without_counterpart(self):
        """All symbols of Triton's libdevice are known but these."""
        text = Path(libdevice.__file__).read_text()
        symbols = re.findall(r"\(((?:core\.dtype\(\"\w+\"\),? ?)+)\): ?\(\"__nv_(\w+)\"", text)
        self.assertGreater(len(symbols), 300)
        missing = set()
        for kinds, name in symbols:
            plain = name[:-1] if "fp32" in kinds and name.endswith("f") and name != "erf" else name
            formula = LIBDEVICE.get(plain.removeprefix("fast_")) if "fp" in kinds else None
            if plain not in FUNCTIONS and not formula:
                missing.add(plain)
        rounded = [f"{name}_{mode}" for name in ("fma", "fmaf", "ddiv", "drcp", "dsqrt") for mode in MODES]
        rounded += [f"{name}_{mode}" for name in ("ll2float", "ull2float", "ll2double", "ull2double") for mode in MODES]
        self.assertEqual(missing, {"jn", "yn", "tgamma", "rcp64h", "dmul_rz", "dmul_rd", *rounded})


instantiate_parametrized_tests(TestLibdevice)

if __name__ == "__main__":
    run_tests()
