# SPDX-License-Identifier: BSD-3-Clause
"""Triton's language on the functional engine, against PyTorch on the CPU."""

import importlib.util
import re

import pytest
import torch
from torch.testing._internal.common_utils import TestCase, instantiate_parametrized_tests, parametrize, run_tests

triton = pytest.importorskip("triton", reason="the extra torch_atalla[triton] is not installed")

import language_kernels as kernels  # noqa: E402
import triton.language as tl  # noqa: E402

from torch_atalla.compiler.tile import lower  # noqa: E402
from torch_atalla.compiler.tile import step_types as kinds  # noqa: E402
from torch_atalla.compiler.tile.fuse import fused  # noqa: E402
from torch_atalla.compiler.tile.ttir import parse  # noqa: E402

DEVICE = "atalla"
N = 64
INTEGERS = [torch.int8, torch.int16, torch.int32, torch.int64]
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]

# Expression of Triton -> what it is for tensors.
ARITHMETIC = {
    "a + b": lambda a, b: a + b,
    "a - b": lambda a, b: a - b,
    "a * b": lambda a, b: a * b,
    "tl.where(a > b, a, b)": torch.maximum,
    "tl.minimum(a, b)": torch.minimum,
    "tl.maximum(a, b)": torch.maximum,
    "-a": lambda a, b: -a,
    "tl.abs(a)": lambda a, b: a.abs(),
    "(a == b).to(a.dtype)": lambda a, b: (a == b).to(a.dtype),
    "(a <= b).to(a.dtype)": lambda a, b: (a <= b).to(a.dtype),
}
ON_INTEGERS = {
    "a // b": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "a % b": torch.fmod,
    "a & b": lambda a, b: a & b,
    "a | b": lambda a, b: a | b,
    "a ^ b": lambda a, b: a ^ b,
    "~a": lambda a, b: ~a,
    "a << (b & 3)": lambda a, b: a << (b & 3),
    "a >> (b & 3)": lambda a, b: a >> (b & 3),
}
ON_FLOATS = {
    "a / b": lambda a, b: a / b,
    "tl.exp(a)": lambda a, b: a.exp(),
    "tl.exp2(a)": lambda a, b: a.exp2(),
    "tl.log(tl.abs(a))": lambda a, b: a.abs().log(),
    "tl.log2(tl.abs(a))": lambda a, b: a.abs().log2(),
    "tl.sin(a)": lambda a, b: a.sin(),
    "tl.cos(a)": lambda a, b: a.cos(),
    "tl.sqrt(tl.abs(a))": lambda a, b: a.abs().sqrt(),
    "tl.sqrt_rn(tl.abs(a))": lambda a, b: a.abs().sqrt(),
    "tl.rsqrt(tl.abs(a))": lambda a, b: a.abs().rsqrt(),
    "tl.erf(a)": lambda a, b: a.erf(),
    "tl.floor(a)": lambda a, b: a.floor(),
    "tl.ceil(a)": lambda a, b: a.ceil(),
    "tl.sigmoid(a)": lambda a, b: a.sigmoid(),
    "tl.fma(a, b, a)": lambda a, b: a * b + a,
    "tl.clamp(a, -0.5, 0.5)": lambda a, b: a.clamp(-0.5, 0.5),
    "tl.div_rn(a, b)": lambda a, b: a / b,
    "libdevice.tanh(a)": lambda a, b: a.tanh(),
    "libdevice.pow(tl.abs(a), b)": lambda a, b: a.abs().pow(b),
    "libdevice.atan2(a, b)": torch.atan2,
    "libdevice.isnan(a / 0).to(a.dtype)": lambda a, b: (a / 0).isnan().to(a.dtype),
}


def elementwise(expression, folder):
    """Makes a kernel of this expression. Triton reads the source of kernels, so this function writes a file."""
    name = re.sub(r"\W+", "_", expression)
    path = folder / f"kernel_{name}.py"
    path.write_text(kernels.TEMPLATE.format(expression=expression))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.kernel


def numbers(dtype, seed=0, n=N):
    generator = torch.Generator().manual_seed(seed)
    if dtype.is_floating_point:
        return torch.randn(n, generator=generator, dtype=torch.float64).to(dtype)
    found = torch.randint(-100, 100, (n,), generator=generator).to(dtype)
    return torch.where(found == 0, torch.ones_like(found), found)


E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
STORED = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2, "bf16": torch.bfloat16}


def scaled_factor(format, shape, k_dim):
    """What a kernel reads, and the numbers that it stands for."""
    if format != "e2m1":
        stored = torch.randn(shape).to(STORED[format])
        return stored, stored.float()
    codes = torch.randint(0, 16, shape)
    low, high = codes.unflatten(k_dim, (-1, 2)).unbind(k_dim + 1)
    return (low | high << 4).to(torch.uint8), E2M1[codes]


class TestLanguage(TestCase):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path):
        self.folder = tmp_path

    def check(self, expression, reference, dtype):
        a, b = numbers(dtype, 1), numbers(dtype, 2)
        out = torch.empty(N, dtype=dtype, device=DEVICE)
        elementwise(expression, self.folder)[(1,)](a.to(DEVICE), b.to(DEVICE), out, N=N)
        wide = torch.float64 if dtype.is_floating_point else dtype
        expected = reference(a.to(wide), b.to(wide)).to(dtype)
        tolerance = {torch.float16: 2e-3, torch.bfloat16: 2e-2, torch.float32: 2e-6}.get(dtype, 1e-12)
        self.assertEqual(out.cpu(), expected, atol=tolerance, rtol=tolerance, msg=lambda m: f"{expression}: {m}")

    @parametrize("dtype", INTEGERS)
    def test_integers(self, dtype):
        cases = ARITHMETIC | ON_INTEGERS
        self.assertGreaterEqual(len(cases), 18)
        for expression, reference in cases.items():
            self.check(expression, reference, dtype)

    @parametrize("dtype", FLOATS)
    def test_floats(self, dtype):
        narrow = ("tl.sqrt_rn", "tl.div_rn", "libdevice", "tl.erf", "tl.exp", "tl.log", "tl.sin", "tl.cos", "tl.sqrt",
                  "tl.rsqrt", "tl.floor", "tl.ceil", "tl.sigmoid")  # fmt: skip
        cases = ARITHMETIC | ON_FLOATS
        if dtype in (torch.float16, torch.bfloat16):  # Triton's front end has these for float32 and float64
            cases = {k: v for k, v in cases.items() if not k.startswith(narrow)}
        if dtype == torch.float64:
            cases = {k: v for k, v in cases.items() if not k.startswith(("tl.sqrt_rn", "tl.div_rn"))}
        self.assertGreaterEqual(len(cases), 13)
        for expression, reference in cases.items():
            self.check(expression, reference, dtype)

    @parametrize("source", [torch.int8, torch.int32, torch.int64, torch.float16, torch.float32, torch.float64])
    @parametrize("target", [torch.int8, torch.int32, torch.int64, torch.bfloat16, torch.float32, torch.float64])
    def test_conversions(self, source, target):
        names = {torch.int8: "int8", torch.int32: "int32", torch.int64: "int64", torch.bfloat16: "bfloat16",
                 torch.float32: "float32", torch.float64: "float64"}  # fmt: skip
        a = numbers(source)
        out = torch.empty(N, dtype=target, device=DEVICE)
        kernel = elementwise(f"a.to(tl.{names[target]})", self.folder)
        kernel[(1,)](a.to(DEVICE), a.to(DEVICE), out, N=N)
        self.assertEqual(out.cpu(), a.to(target))

    @parametrize("format", [torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz])
    def test_float8(self, format):
        name = {"float8_e4m3fn": "float8e4nv", "float8_e5m2": "float8e5", "float8_e4m3fnuz": "float8e4b8",
                "float8_e5m2fnuz": "float8e5b16"}[str(format).removeprefix("torch.")]  # fmt: skip
        bits = torch.arange(256, dtype=torch.int32).to(torch.int8)
        out = torch.empty(256, device=DEVICE)
        on_device = bits.to(DEVICE)
        kernel = elementwise(f"a.to(tl.{name}, bitcast=True).to(tl.float32)", self.folder)
        kernel[(1,)](on_device, on_device, out, N=256)
        expected = bits.view(format).float()
        self.assertEqual(out.cpu(), expected)
        values = torch.cat([torch.randn(128), torch.randn(128) * 20, torch.tensor([0.0, -0.0, 1e-3, 1e-5])])[:256]
        back = torch.empty(256, dtype=torch.int8, device=DEVICE)
        x = values[:256].to(DEVICE)
        elementwise(f"a.to(tl.{name}).to(tl.int8, bitcast=True)", self.folder)[(1,)](x, x, back, N=256)
        self.assertEqual(back.cpu().view(format).float(), values[:256].to(format).float())

    @parametrize("kind", ["sum", "max", "min", "xor", "argmax", "argmin"])
    @parametrize("axis", [0, 1])
    def test_reductions(self, kind, axis):
        x = torch.randint(-50, 50, (32, 16), dtype=torch.int32)
        n = 16 if axis == 0 else 32
        out = torch.zeros(n, dtype=torch.int32, device=DEVICE)
        kernels.reduce_rows[(1,)](x.to(DEVICE), out, out, M=32, N=16, AXIS=axis, KIND=kind)
        if kind == "xor":
            expected = torch.zeros(n, dtype=torch.int32)
            for row in x.unbind(axis):
                expected ^= row
        elif kind.startswith("arg"):
            chosen = x.double() - torch.arange(x.shape[axis]).double().view(-1, *[1] * (1 - axis)) * (
                1e-4 if kind == "argmax" else -1e-4
            )  # the first of equals
            expected = getattr(chosen, kind)(axis).int()
        else:
            expected = (x.sum(axis) if kind == "sum" else getattr(x, f"a{kind}")(axis)).int()
        self.assertEqual(out.cpu(), expected)

    @parametrize("axis", [0, 1])
    @parametrize("reverse", [False, True])
    @parametrize("kind", ["sum", "prod"])
    def test_scans(self, axis, reverse, kind):
        x = torch.rand(16, 8) + 0.5
        out = torch.empty(16, 8, device=DEVICE)
        kernels.scan[(1,)](x.to(DEVICE), out, M=16, N=8, AXIS=axis, REVERSE=reverse, KIND=kind)
        turned = x.flip(axis) if reverse else x
        expected = turned.cumsum(axis) if kind == "sum" else turned.cumprod(axis)
        self.assertEqual(out.cpu(), expected.flip(axis) if reverse else expected)

    def test_scan_keeps_the_order(self):
        x = torch.arange(32.0)
        out = torch.empty(32, device=DEVICE)
        kernels.scan_in_order[(1,)](x.to(DEVICE), out, N=32)
        self.assertEqual(out.cpu(), x)

    def test_shapes(self):
        x = torch.randn(16, 16)
        outs = [torch.empty(n, device=DEVICE) for n in (256, 32, 16, 16, 16)]
        kernels.shapes[(1,)](x.to(DEVICE), *outs, N=16)
        row = x[0]
        self.assertEqual(outs[0].cpu().view(16, 16), x.T)
        self.assertEqual(outs[1].cpu().view(16, 2), torch.stack([row, row * 2], 1))
        self.assertEqual(outs[2].cpu(), torch.cat([row[::2], row[1::2]]))
        self.assertEqual(outs[3].cpu(), row.sort().values)
        self.assertEqual(outs[4].cpu(), row.flip(0))

    def test_gather_and_histogram(self):
        x = torch.randn(8, 16)
        index = torch.randint(0, 16, (8, 32), dtype=torch.int32)
        out = torch.empty(8, 32, device=DEVICE)
        counts = torch.empty(16, dtype=torch.int32, device=DEVICE)
        kernels.gathered[(1,)](x.to(DEVICE), index.to(DEVICE), out, counts, M=8, N=16, K=32)
        self.assertEqual(out.cpu(), x.gather(1, index.long()))
        self.assertEqual(counts.cpu(), torch.bincount(index.flatten(), minlength=16).int())

    @parametrize("n", [0, 3, 7])
    def test_control_flow(self, n):
        x = torch.randn(16)
        out = torch.empty(16, device=DEVICE)
        kernels.control[(1,)](x.to(DEVICE), out, n, 5.0, N=16)
        values = x.clone()
        for _ in range(n):
            values = values - 1 if values.sum() > 5 else values + 2
        a, b = values, values * 10
        for k in range(n):
            a, b = b, a + k
        for k in range(n, 0, -1):
            a = a + k
        self.assertEqual(out.cpu(), a + b * 100 if n > 3 else torch.zeros(16))

    @parametrize("flag", [0, 1, 2])
    def test_returns(self, flag):
        """From several places of a kernel, and of a function that it calls."""
        x = torch.randint(0, 100, (16,), dtype=torch.int32)
        out = torch.zeros(16, dtype=torch.int32, device=DEVICE)
        compiled = kernels.early[(1,)](torch.tensor([flag], device=DEVICE), x.to(DEVICE), out, N=16)
        expected = x + 1 if flag else x * 2
        expected[0] = 5 if flag == 2 else 6
        self.assertEqual(out.cpu(), expected)
        self.assertRegex(compiled.asm["ttir"], r"cf.cond_br .*\^bb\d+\(")
        self.assertIn("tt.call", compiled.asm["ttir"])

    def test_reinterpreted_tensors(self):
        """triton.reinterpret gives a kernel the same memory as another dtype."""
        x = torch.tensor([-1, -7, 3, 100], dtype=torch.int8)
        out = torch.empty(4, dtype=torch.int32, device=DEVICE)
        kernels.widened[(1,)](triton.reinterpret(x.to(DEVICE)[1:], tl.uint8), out, N=2)
        self.assertEqual(out[:2].cpu(), torch.tensor([249, 3], dtype=torch.int32))

    @parametrize("kind", ["add", "max", "min", "and", "or", "xor", "exchange"])
    def test_atomics(self, kind):
        x = torch.randint(0, 1000, (16,), dtype=torch.int32)
        start = torch.tensor([500, 3, 999, 128], dtype=torch.int32)
        out, old = start.to(DEVICE), torch.empty(16, dtype=torch.int32, device=DEVICE)
        kernels.atomics[(1,)](x.to(DEVICE), out, old, N=16, KIND=kind)
        update = {"add": lambda a, b: a + b, "max": max, "min": min, "and": lambda a, b: a & b,
                  "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b, "exchange": lambda a, b: b}[kind]  # fmt: skip
        state, before = start.tolist(), [0] * 16
        for i, value in enumerate(x.tolist()[:-1]):
            before[i] = state[i % 4]
            state[i % 4] = update(state[i % 4], value)
        self.assertEqual(out.cpu().tolist(), state)
        self.assertEqual(old.cpu().tolist(), before)

    @parametrize("dtype", [torch.float16, torch.float32, torch.float64, torch.int8])
    def test_batched_dot(self, dtype):
        b, m, n, k = 2, 16, 32, 16
        x = numbers(dtype, 1, b * m * k).view(b, m, k)
        y = numbers(dtype, 2, b * k * n).view(b, k, n)
        result = torch.int32 if dtype == torch.int8 else torch.float32 if dtype == torch.float16 else dtype
        out = torch.empty(b, m, n, dtype=result, device=DEVICE)
        kernels.batched_dot[(1,)](x.to(DEVICE), y.to(DEVICE), out, B=b, M=m, N=n, K=k)
        self.assertEqual(out.cpu(), (x.double() @ y.double()).to(result), atol=1e-4, rtol=1e-4)

    @parametrize("formats", [("e2m1", "e5m2"), ("e4m3", "e2m1"), ("bf16", "e4m3"), ("e2m1", "bf16")])
    def test_scaled_dot(self, formats):
        m, n, k = 16, 32, 64
        a, a_numbers = scaled_factor(formats[0], (m, k), 1)
        b, b_numbers = scaled_factor(formats[1], (k, n), 0)
        scales = [torch.randint(120, 134, (rows, k // 32), dtype=torch.uint8) for rows in (m, n)]
        powers = [2.0 ** (s.float() - 127) for s in scales]
        has_scale = formats[1] != "bf16"
        expected_b = b_numbers * powers[1].repeat_interleave(32, 1).t() if has_scale else b_numbers
        out = torch.empty(m, n, device=DEVICE)
        given = [t.to(DEVICE) for t in (a, scales[0], b, scales[1])]
        if not has_scale:
            given[3] = None
        kernels.scaled_dot[(1,)](*given, out, M=m, N=n, K=k, A=formats[0], B=formats[1])
        expected = (a_numbers * powers[0].repeat_interleave(32, 1)) @ expected_b
        self.assertEqual(out.cpu(), expected, rtol=1e-5, atol=1e-3)

    def test_addresses_of_what_a_loop_moves(self):
        x, out = torch.arange(64.0, device=DEVICE), torch.zeros(64, device=DEVICE)
        kernels.moved_offsets[(1,)](x, out, 4, BLOCK=16)
        self.assertEqual(out, 2 * x)

    @parametrize("other", ["none", "rows", "odd", "all"])
    @parametrize("strides", [(40, 1), (1, 40), (-40, 1), (80, 2)])
    @parametrize("dtype", [torch.float32, torch.float16, torch.int64])
    def test_tiles_of_rows(self, other, strides, dtype):
        rows, columns = (32, 32) if other in ("none", "rows") else (27, 19)
        memory = torch.arange(32 * 80 + 80).to(dtype)
        start = 31 * 40 if strides[0] < 0 else 0
        r, c = torch.arange(32)[:, None], torch.arange(32)[None, :]
        values = memory[start + r * strides[0] + c * strides[1]]
        inside = (r < rows) & (c < columns) & ((c % 2 == 1) | (other != "odd"))
        fill = {"none": 0, "rows": -1, "odd": 5, "all": 2}[other]
        out = torch.zeros(32, 32, dtype=dtype, device=DEVICE)
        x = memory.to(DEVICE)[start:]
        kernels.tile_of_rows[(4,)](x, out, rows, columns, *strides, 32, OTHER=other, ROWS=8, COLUMNS=32)
        self.assertEqual(out.cpu(), torch.where(inside, values, torch.tensor(fill, dtype=dtype)))

    def test_rows_outside_of_tensors(self):
        x, out = torch.zeros(31, 32, device=DEVICE), torch.zeros(32, 32, device=DEVICE)
        for given, what in (((x, out), "reads"), ((out, x), "writes")):
            with self.assertRaisesRegex(RuntimeError, rf"instance \(3, 0, 0\) {what} address 0x[0-9a-f]+, outside"):
                kernels.tile_of_rows[(4,)](*given, 32, 32, 32, 1, 32, OTHER="none", ROWS=8, COLUMNS=32)
                torch.atalla.synchronize()

    def test_tensor_descriptors(self):
        x = torch.randn(40, 50)
        out = torch.zeros(40, 50, device=DEVICE)
        kernels.descriptor[(3, 4)](x.to(DEVICE), out, 40, 50, BLOCK=16)
        self.assertEqual(out.cpu(), x + 1)

    def test_grid(self):
        out = torch.empty(2, 3, 5, dtype=torch.int32, device=DEVICE)
        kernels.grid[(5, 3, 2)](out)
        z, y, x = torch.meshgrid(torch.arange(2), torch.arange(3), torch.arange(5), indexing="ij")
        self.assertEqual(out.cpu(), (x + 10 * y + 100 * z).int())

    def test_address_outside_of_tensors(self):
        x = torch.zeros(1000, device=DEVICE)
        line = 1 + next(
            i for i, text in enumerate(open(kernels.__file__), 1) if text.startswith("def outside")
        )  # of the first statement
        end = x.untyped_storage().nbytes()
        with self.assertRaisesRegex(
            RuntimeError, rf"outside, line {line + 1}: program instance \(1, 0, 0\) writes address 0x"
        ) as raised:
            kernels.outside[(4,)](x, BLOCK=512)
            torch.atalla.synchronize()
        address = int(re.search(r"address (0x\w+)", str(raised.exception))[1], 16)
        self.assertGreaterEqual(address, x.data_ptr() + end)

    def test_assertions(self):
        x = torch.zeros(1, device=DEVICE)
        kernels.checked[(1,)](x, 5, debug=True)
        with self.assertRaisesRegex(RuntimeError, "assertion failed: n is too small"):
            kernels.checked[(1,)](x, 2, debug=True)
            torch.atalla.synchronize()

    def test_written_arguments(self):
        """Tensors that a kernel only reads are inputs of its launch."""
        x = torch.zeros(64, device=DEVICE)
        i = torch.zeros(64, dtype=torch.int32, device=DEVICE)
        cases = {
            kernels.shapes.warmup(x, x, x, x, x, x, N=16, grid=(1,)): {1, 2, 3, 4, 5},
            kernels.control.warmup(x, x, 3, 5.0, N=16, grid=(1,)): {1},
            kernels.atomics.warmup(i, i, i, N=16, KIND="add", grid=(1,)): {1, 2},
            kernels.descriptor.warmup(x, x, 8, 8, BLOCK=16, grid=(1,)): {1},
        }
        for compiled, written in cases.items():
            self.assertEqual(lower(parse(compiled.asm["ttir"])).written, written, msg=compiled.name)

    def test_joined_steps(self):
        """A difference is computed by the exp that alone reads it, and what a store alone reads by the store."""
        slots = [(torch.float32, 1), *[(torch.float32, 64)] * 4, (torch.int64, 1), (torch.int32, 64)]
        one, x, difference, power, out, base, offsets = range(7)
        sub, exp = kinds.Arithmetic(difference, x, one, "sub"), kinds.Exp(power, difference)
        twice, store = kinds.Arithmetic(out, power, power, "add"), kinds.Store(base, offsets, 4, out, -1, 7)
        fill, empty = kinds.Fill(one, 0), kinds.Branch(base, [], [])

        self.assertEqual(
            fused([sub, exp, twice, store], slots),
            [
                kinds.Exp(power, x, kinds.ExpShifted(one)),
                kinds.Store(base, offsets, 4, out, -1, 7, made=kinds.StoreMade("add", power, power)),
            ],
        )

        def ops(steps):
            return [step.op for step in fused(steps, slots)]

        self.assertEqual(ops([sub, exp, kinds.Print(0, difference)])[:2], ["arithmetic", "exp"])
        self.assertEqual(ops([sub, fill, exp]), ["arithmetic", "fill", "exp"])
        self.assertEqual(ops([sub, empty, exp]), ["arithmetic", "branch", "exp"])
        inside = kinds.Loop(base, base, base, base, 0, [sub, exp])
        self.assertEqual(fused([inside], slots)[0].body, [kinds.Exp(power, x, kinds.ExpShifted(one))])
        inside = kinds.Reduce(1, 64, [], [], [], [], [], [sub, exp])
        self.assertEqual(len(fused([inside], slots)[0].bodies[0]), 2)

    def test_errors_name_their_line(self):
        x = torch.zeros(16, dtype=torch.int32, device=DEVICE)
        with self.assertRaisesRegex(triton.CompilationError, r"language_kernels.py:\d+:\d+: tt.elementwise_inline_asm"):
            kernels.with_assembly[(1,)](x, BLOCK=16)
        with self.assertRaisesRegex(ValueError, "cannot be accessed from Triton: expected a tensor on atalla:0"):
            kernels.grid[(1,)](x.cpu())
        with self.assertRaisesRegex(ValueError, "num_ctas: expected 1"):
            kernels.grid[(1,)](x, num_ctas=2)
        with self.assertRaisesRegex(AssertionError, "num_warps must be a power of 2, got 3"):
            kernels.grid[(1,)](x, num_warps=3)

    def test_simulated_time(self):
        """do_bench counts cycles of the chip, and twice the work takes twice of them."""
        times = []
        for programs in (64, 128):
            x = torch.zeros(programs * 512, device=DEVICE)
            times.append(triton.testing.do_bench(lambda x=x, p=programs: kernels.outside[(p,)](x, BLOCK=512)))
        self.assertGreater(times[0], 0)
        self.assertEqual(times[1] / times[0], 2, atol=0.05, rtol=0)


instantiate_parametrized_tests(TestLanguage)

if __name__ == "__main__":
    run_tests()
