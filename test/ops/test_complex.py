# SPDX-License-Identifier: BSD-3-Clause
"""Complex dtypes where OpInfo's samples do not look: special values, results of real dtype, conj and neg bits, out=."""

import itertools
import math

import torch
from torch.testing._internal.common_utils import TestCase

import torch_atalla

DTYPES = (torch.complex64, torch.complex128)
VALUES = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 1e-3, -30.0, 1e25, -1e-25, math.inf, -math.inf, math.nan]
UNARY = (
    "abs angle neg exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal sin cos tan asin acos atan sinh cosh tanh "
    "asinh acosh atanh sigmoid isnan isinf isfinite isreal logical_not conj_physical"
).split()
BINARY = "add sub mul eq ne logical_and logical_or logical_xor pow logaddexp".split()


def grid(dtype):
    return torch.tensor([complex(re, im) for re in VALUES for im in VALUES], dtype=dtype)


class TestComplex(TestCase):
    def setUp(self):
        super().setUp()
        self.guard = torch_atalla.fallback.mode("error")
        self.guard.__enter__()

    def tearDown(self):
        self.guard.__exit__()
        super().tearDown()

    def assert_close(self, got, expected, dtype, message):
        """Component by component; an error is measured by the modulus, for sums are fused or ordered differently."""
        self.assertEqual(got.dtype, expected.dtype)
        relative = 1e-5 if dtype == torch.complex64 else 1e-12
        if got.is_complex():
            size = expected.abs().unsqueeze(-1)
            got, expected = torch.view_as_real(got), torch.view_as_real(expected)
        else:
            size = expected.double().abs()
        same = (got == expected) | (got.isnan() & expected.isnan())
        close = (got.double() - expected.double()).abs() <= relative * size + 1e-16
        wrong = ~(same | close & got.isfinite() & expected.isfinite())
        self.assertEqual(int(wrong.sum()), 0, msg=f"{message}: {got[wrong][:4]}, CPU {expected[wrong][:4]}")

    def test_special_values_of_functions(self):
        for dtype in DTYPES:
            z = grid(dtype)
            for name in UNARY:
                f = getattr(torch, name)
                # One element at a time: upstream's vector and scalar code differ in some special values.
                expected = torch.cat([f(z[i : i + 1]) for i in range(len(z))])
                self.assert_close(f(z.to("atalla")).cpu(), expected, dtype, f"{name} {dtype}")

    def test_special_values_of_operators(self):
        for dtype in DTYPES:
            z = grid(dtype)[::3]
            a, b = z.repeat_interleave(len(z)), z.repeat(len(z))
            for name in BINARY:
                f = getattr(torch, name)
                self.assert_close(f(a.to("atalla"), b.to("atalla")).cpu(), f(a, b), dtype, f"{name} {dtype}")

    def test_division(self):
        for dtype in DTYPES:
            z = grid(dtype)
            z = z[z.isfinite()]
            a, b = z.repeat_interleave(len(z)), z.repeat(len(z))
            got, expected = torch.div(a.to("atalla"), b.to("atalla")).cpu(), torch.div(a, b)
            finite = expected.isfinite()
            self.assert_close(got[finite], expected[finite], dtype, str(dtype))
            self.assertFalse(got[b == 0].isfinite().any())
            self.assertEqual(torch.div(z.to("atalla"), z.to("atalla")).cpu()[z != 0].imag.abs().max().item(), 0)

    def test_powers(self):
        for dtype in DTYPES:
            z = grid(dtype)
            z = z[z.isfinite() & (z.abs() < 1e9)]
            for exponent in (0, 1, 2, 3, 0.5, -0.5, -1, -2, 1.5, 1 + 2j):
                got, expected = torch.pow(z.to("atalla"), exponent).cpu(), torch.pow(z, exponent)
                finite = expected.isfinite()
                self.assert_close(got[finite], expected[finite], dtype, f"{exponent} {dtype}")
            x = torch.tensor([0.5, 2, -1], dtype=dtype)
            self.assertEqual(torch.pow(2 - 1j, x.to("atalla")).cpu(), torch.pow(2 - 1j, x))

    def test_real_results(self):
        z = torch.tensor([3 + 4j, -1j], device="atalla")
        self.assertEqual(z.abs().dtype, torch.float32)
        out = torch.empty(2, dtype=torch.float64, device="atalla")
        self.assertEqual(torch.abs(z, out=out).cpu(), torch.tensor([5.0, 1.0], dtype=torch.float64))
        self.assertEqual(torch.abs(z, out=torch.empty_like(z)).cpu(), torch.tensor([5 + 0j, 1 + 0j]))
        with self.assertRaisesRegex(RuntimeError, "can't be cast"):
            torch.abs(z, out=torch.empty(2, dtype=torch.int64, device="atalla"))
        with self.assertRaisesRegex(RuntimeError, "In-place abs is not supported for complex tensors"):
            z.abs_()
        self.assertEqual(torch.angle(torch.tensor([-1, 2], device="atalla")).cpu(), torch.tensor([math.pi, 0.0]))
        self.assertEqual(torch.var(z).dtype, torch.float32)
        self.assertEqual(torch.linalg.vector_norm(z, 3).cpu(), torch.linalg.vector_norm(z.cpu(), 3))

    def test_scalars_keep_their_imaginary_part(self):
        z = torch.tensor([1 + 2j, -3j])
        d = z.to("atalla")
        self.assertEqual(torch.add(d, d, alpha=2 - 1j).cpu(), torch.add(z, z, alpha=2 - 1j))
        self.assertEqual(torch.addcmul(d, d, d, value=1j).cpu(), torch.addcmul(z, z, z, value=1j))
        self.assertEqual(torch.lerp(d, d * 2, 0.25 + 1j).cpu(), torch.lerp(z, z * 2, 0.25 + 1j))
        self.assertEqual((d * 1j).cpu(), z * 1j)
        self.assertEqual((d == -3j).cpu(), z == -3j)
        self.assertEqual(torch.full((2,), 1 - 2j, device="atalla").cpu(), torch.full((2,), 1 - 2j))

    def test_conjugates(self):
        z = torch.randn(5, 4, dtype=torch.complex64)
        d = z.to("atalla")
        self.assertTrue(d.conj().is_conj())
        self.assertEqual(d.conj().cpu(), z.conj())
        self.assertEqual(d.conj().resolve_conj().cpu(), z.conj())
        self.assertEqual((d.conj() + d).cpu(), z.conj() + z)
        self.assertEqual(d.conj().imag.cpu(), z.conj().imag)
        self.assertEqual(d.conj().imag.resolve_neg().cpu(), z.conj().imag)
        self.assertEqual((d.conj() @ d.mH).cpu(), z.conj() @ z.mH)
        self.assertEqual(torch.vdot(d[0], d[1]).cpu(), torch.vdot(z[0], z[1]))
        self.assertEqual(torch.vdot(d[0].conj(), d[1].conj()).cpu(), torch.vdot(z[0].conj(), z[1].conj()))
        for product in (torch.dot, torch.vdot):
            for pairs in itertools.product((False, True), repeat=2):
                on_device, on_cpu = (
                    product(*(x.conj() if lazy else x for x, lazy in zip(both[:2], pairs))) for both in (d, z)
                )
                self.assertEqual((on_device.is_conj(), on_device.cpu()), (on_cpu.is_conj(), on_cpu))
        out = torch.empty_like(d)
        self.assertEqual(torch.conj_physical(d, out=out).cpu(), z.conj())
        d.conj().copy_(torch.full_like(d, 1j))
        self.assertEqual(d.cpu(), torch.full_like(z, -1j))

    def test_products(self):
        for dtype in DTYPES:
            a, b = torch.randn(3, 4, 5, dtype=dtype), torch.randn(3, 5, 6, dtype=dtype)
            c = torch.randn(3, 4, 6, dtype=dtype)
            x, y, w = (t.to("atalla") for t in (a, b, c))
            self.assertEqual(torch.baddbmm(w, x, y, beta=2j, alpha=1 - 1j).cpu(),
                             torch.baddbmm(c, a, b, beta=2j, alpha=1 - 1j))  # fmt: skip
            ignored = torch.full_like(w, math.nan)
            self.assertEqual(torch.baddbmm(ignored, x, y, beta=0j).cpu(), a @ b)
            self.assertEqual((x[:, :, :0] @ y[:, :0]).cpu(), torch.zeros(3, 4, 6, dtype=dtype))
            square = torch.randn(7, 7, dtype=dtype)
            s = square.to("atalla")
            torch.mm(s, s, out=s)
            self.assertEqual(s.cpu(), square @ square)

    def test_parts(self):
        re, im = torch.randn(3, 1), torch.randn(2)
        for dtype in (torch.float16, torch.float32, torch.float64):
            made = torch.complex(re.to("atalla", dtype), im.to("atalla", dtype))
            expected = torch.complex(re.to(dtype), im.to(dtype))
            self.assertEqual(torch.view_as_real(made).cpu(), torch.view_as_real(expected))
        self.assertEqual(torch.polar(re.abs().to("atalla"), im.to("atalla")).cpu(), torch.polar(re.abs(), im))
        with self.assertRaisesRegex(RuntimeError, "Expected both inputs to be Half, Float or Double"):
            torch.complex(torch.ones(2, dtype=torch.int64, device="atalla"), torch.ones(2, device="atalla"))
        d = torch.zeros(3, dtype=torch.complex64, device="atalla")
        d.real.fill_(2)
        d.imag.copy_(torch.arange(3.0))
        self.assertEqual(d.cpu(), torch.complex(torch.full((3,), 2.0), torch.arange(3.0)))

    def test_transposed_convolution_of_odd_shapes(self):
        def check(spatial, dtype, groups, **options):
            f = (torch.nn.functional.conv_transpose1d, torch.nn.functional.conv_transpose2d,
                 torch.nn.functional.conv_transpose3d)[spatial - 1]  # fmt: skip
            x = torch.randn(2, 4, *(5, 6, 3)[:spatial]).mul(4).to(dtype)
            w = torch.randn(4, 6 // groups, *(3, 2, 4)[:spatial]).mul(4).to(dtype)
            b = torch.arange(6).to(dtype)
            got = f(x.to("atalla"), w.to("atalla"), b.to("atalla"), groups=groups, **options).cpu()
            self.assertEqual(got, f(x, w, b, groups=groups, **options), atol=2e-4, rtol=1e-5)

        for spatial in (1, 2, 3):
            for dtype in (torch.float32, torch.int64):
                check(spatial, dtype, 1)
                check(spatial, dtype, 2, stride=2, padding=1)
                check(spatial, dtype, 1, stride=3, output_padding=2)
                check(spatial, dtype, 2, stride=4, dilation=2)
                check(spatial, dtype, 1, stride=2, dilation=3, padding=2, output_padding=1)
            check(spatial, torch.complex64, 1, stride=2)

    def test_conj_physical_in_place(self):
        x = torch.randn(4, dtype=torch.complex64)
        self.assertEqual(x.to("atalla").conj_physical_().cpu(), x.conj())
        self.assertEqual(x.to("atalla").conj().conj_physical_().cpu(), x)

    def test_products_into_conjugates(self):
        x, a, b = (torch.randn(*sizes, dtype=torch.complex64) for sizes in ((2, 3, 5), (2, 3, 4), (2, 4, 5)))
        for function, pick in ((torch.baddbmm, lambda t: t), (torch.addmm, lambda t: t[0])):
            out, first, second = (pick(t) for t in (x, a, b))
            expected = function(out.conj(), first, second, beta=2, alpha=1j)
            on_device = out.to("atalla").conj()
            given = on_device, first.to("atalla"), second.to("atalla")
            result = function(*given, beta=2, alpha=1j, out=on_device)
            self.assertTrue(result.is_conj())
            self.assertEqual(result.cpu(), expected)

    def test_products_of_tensors_without_memory(self):
        """Forward-mode AD gives operators such tensors of zeros."""
        for dtype in (torch.float32, torch.float64, *DTYPES):
            x = torch.ones(3, dtype=dtype, device="atalla")
            zeros = torch._efficientzerotensor((3,), dtype=dtype, device="atalla")
            for product in (torch.dot, torch.vdot, torch.inner):
                for operands in ((x, zeros), (zeros, x)):
                    self.assertEqual(product(*operands).cpu(), torch.zeros((), dtype=dtype))
