# SPDX-License-Identifier: BSD-3-Clause
"""Dtypes that the chip does not have (complex32, wide unsigned integers, 8-bit floats): conversions bit for bit, and
ops that move, compare, sort and compute them, on the device with the fallback forbidden."""

from __future__ import annotations

import operator

import torch
from opinfo_suite import DeviceTestCase, raised
from torch.testing._internal.common_device_type import instantiate_device_type_tests
from torch.testing._internal.common_utils import parametrize

from torch_atalla.testing import CHIP_DTYPES, EMULATED_DTYPES

UNSIGNED = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}
FLOAT8 = [d for d in EMULATED_DTYPES if "float8" in str(d)]


def same_bits(case, got: torch.Tensor, want: torch.Tensor) -> None:
    got = got.cpu()
    case.assertEqual((got.dtype, got.shape), (want.dtype, want.shape))
    if got.dtype == torch.bool:
        case.assertTrue(torch.equal(got, want))
        return
    as_bytes = [t.contiguous().flatten().view(torch.uint8) for t in (got, want)]
    different = as_bytes[0] != as_bytes[1]
    case.assertFalse(bool(different.any()), msg=f"{int(different.sum())} bytes of {different.numel()} differ")


def some(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    """Values of all bit patterns but NaN, whose sum and order are not defined."""
    generator = torch.Generator().manual_seed(0)
    if dtype in UNSIGNED:
        low = torch.iinfo(UNSIGNED[dtype]).min
        return torch.randint(low, -low - 1, shape, generator=generator, dtype=UNSIGNED[dtype]).view(dtype)
    values = torch.randn(shape, generator=generator) * 3
    return (torch.complex(values, values.flip(0)) if dtype == torch.complex32 else values).to(dtype)


class TestConversions(DeviceTestCase):
    @parametrize("dtype", FLOAT8)
    def test_to_float8(self, device, dtype):
        generator = torch.Generator().manual_seed(1)
        bits = torch.randint(-(2**31), 2**31 - 1, (50000,), generator=generator).to(torch.int32)
        edges = [float("inf"), float("nan"), 0.0, 448, 464, 464.01, 480, 240, 248, 57344, 61439, 61440, 65536, 2**-10]
        x = torch.cat([bits.view(torch.float32), torch.tensor(edges), -torch.tensor(edges)])
        same_bits(self, x.to(device).to(dtype), x.to(dtype))

    @parametrize("dtype", FLOAT8)
    def test_from_float8(self, device, dtype):
        codes = torch.arange(256, dtype=torch.uint8).view(dtype)
        for target in (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.complex64):
            same_bits(self, codes.to(device).to(target), codes.to(target))

    @parametrize("dtype", list(UNSIGNED))
    def test_from_unsigned(self, device, dtype):
        x = some(dtype, 999)
        x[:3] = torch.tensor([0, 1, torch.iinfo(UNSIGNED[dtype]).max]).to(dtype)
        for target in (*CHIP_DTYPES, *UNSIGNED, torch.complex32):
            same_bits(self, x.to(device).to(target), x.to(target))

    @parametrize("dtype", list(UNSIGNED))
    def test_to_unsigned(self, device, dtype):
        integers = torch.randint(-(2**62), 2**62, (999,), generator=torch.Generator().manual_seed(2))
        bits = 8 * dtype.itemsize
        reals = torch.rand(999, generator=torch.Generator().manual_seed(3), dtype=torch.float64) * (2.0**bits - 2**11)
        for x in (integers, integers > 0, reals, reals.float() * 0.99, reals.to(torch.complex128)):
            same_bits(self, x.to(device).to(dtype), x.to(dtype))

    def test_rounding_of_wide_integers(self, device):
        """One rounding, to even, also of numbers that int64 does not hold."""
        x = torch.tensor(
            [2**63 + 2**39, 2**63 + 2**39 + 1, 2**63 + 3 * 2**39, 2**64 - 1, 2**63 - 1], dtype=torch.uint64
        )
        for target in (torch.float32, torch.float64, torch.bfloat16):
            same_bits(self, x.to(device).to(target), x.to(target))

    def test_strided(self, device):
        x = some(torch.uint16, 12, 10)
        same_bits(self, x.to(device)[::2, 1:].t().to(torch.float32), x[::2, 1:].t().to(torch.float32))
        y = torch.zeros(10, 12, dtype=torch.float8_e5m2, device=device)
        y.t().copy_(x.to(device))
        same_bits(self, y, x.t().to(torch.float8_e5m2).contiguous())


class TestOps(DeviceTestCase):
    @parametrize("dtype", list(EMULATED_DTYPES))
    def test_moves(self, device, dtype):
        x = some(dtype, 4, 5)
        index = torch.tensor([3, 0, 3])
        mask = x.view(torch.uint8).view(4, 5, -1)[..., 0] % 2 == 0
        for f in (
            lambda t, i, m: torch.cat([t, t[1:]]),
            lambda t, i, m: torch.stack([t, t], -1),
            lambda t, i, m: t[i],
            lambda t, i, m: t[:, i],
            lambda t, i, m: t.index_select(0, i),
            lambda t, i, m: t.flip(1),
            lambda t, i, m: torch.where(m, t, t[0]),
            lambda t, i, m: t.clone().fill_(1),
            lambda t, i, m: torch.zeros_like(t),
            lambda t, i, m: t.repeat(2, 3),
            lambda t, i, m: t.clone().index_copy_(0, i[1:], t[:2]),
            lambda t, i, m: t.t().contiguous(),
        ):
            got = f(x.to(device), index.to(device), mask.to(device))
            if (error := raised(lambda f=f: f(x, index, mask))) is None:
                same_bits(self, got, f(x, index, mask))
            else:
                self.assertIn("not implemented for", str(error))

    @parametrize("dtype", [torch.complex32, *UNSIGNED])
    def test_numbers_are_moved_too(self, device, dtype):
        x, mask = some(dtype, 4, 5), torch.arange(20).view(4, 5) % 3 == 0
        y = x.to(device).masked_fill(mask.to(device), 7)
        same_bits(self, y, torch.where(mask, torch.tensor(7, dtype=dtype), x))

    def test_written_arguments(self, device):
        x = some(torch.complex32, 3, 4)
        y = x.to(device)
        self.assertIs(y.mul_(2), y)
        self.assertEqual(y.cpu().to(torch.complex64), x.to(torch.complex64) * 2)
        same_bits(self, x.to(device).conj_physical_(), x.clone().conj_physical_())
        out = torch.empty(0, dtype=torch.uint16, device=device)
        v = some(torch.uint16, 6)
        self.assertIs(torch.cat([v.to(device), v.to(device)], out=out), out)
        same_bits(self, out, torch.cat([v, v]))

    def test_common_dtype(self, device):
        """With a wider operand the result is as wide; a real result of half parts is half."""
        h, f = some(torch.complex32, 5), torch.randn(5)
        self.assertEqual((h.to(device) + f.to(device)).dtype, torch.complex64)
        self.assertEqual((h.to(device) + f.half().to(device)).dtype, torch.complex32)
        self.assertEqual(h.to(device).abs().dtype, torch.float16)
        self.assertEqual(h.to(device).abs().cpu(), h.to(torch.complex64).abs().half())

    @parametrize("dtype", list(UNSIGNED))
    def test_order(self, device, dtype):
        """The highest bit is no sign."""
        x = some(dtype, 64)
        a = x.to(device)
        b = a.flip(0)
        wide = x.numpy()
        for op, want in ((torch.lt, wide < wide[::-1]), (torch.ge, wide >= wide[::-1]), (torch.eq, wide == wide[::-1])):
            self.assertEqual(op(a, b).cpu().numpy(), want)
        values, inverse, counts = torch.unique(a[:40], return_inverse=True, return_counts=True)
        want = torch.unique(x[:40], return_inverse=True, return_counts=True)
        for got, expected in zip((values, inverse, counts), want):
            same_bits(self, got, expected)

    def test_order_beside_a_number_above_int64(self, device):
        values = [0, 2**63 - 1, 2**63, 2**64 - 1]  # PyTorch has eq and ne of these on the CPU only
        x = torch.tensor(values, dtype=torch.uint64, device=device)
        for name in ("eq", "ne", "lt", "ge"):
            for number in (2**63, 2**64 - 1):
                expected = [getattr(operator, name)(value, number) for value in values]
                self.assertEqual(getattr(torch, name)(x, number).tolist(), expected)

    def test_floating_point_of_unsigned(self, device):
        for dtype in UNSIGNED:
            x = some(dtype, 33).view(UNSIGNED[dtype]).bitwise_and(15).view(dtype)
            y = x.to(device).sqrt()
            self.assertEqual(y.dtype, torch.float32)
            self.assertEqual(y.cpu(), x.to(torch.float32).sqrt())

    def test_what_the_cpu_lacks_too(self, device):
        for x in (some(torch.uint32, 4).to(device), some(torch.float8_e5m2, 4).to(device)):
            with self.assertRaisesRegex(NotImplementedError, "is not implemented natively on the atalla device"):
                x + x

    @parametrize("dtype", FLOAT8)
    def test_numbers_read_by_the_host(self, device, dtype):
        x = torch.tensor([1.5, -4.0, 0.5], dtype=torch.float32).abs().to(dtype)
        self.assertEqual([x.to(device)[i].item() for i in range(3)], [x[i].item() for i in range(3)])
        self.assertEqual(x.to(device).tolist(), x.tolist())

    def test_reading_of_an_empty_tensor(self, device):
        for dtype in (torch.float32, torch.float8_e5m2):
            x = torch.empty(0, dtype=dtype)
            texts = [str(raised(lambda y=y: torch.ops.aten._local_scalar_dense(y))) for y in (x.to(device), x)]
            self.assertEqual(*texts)

    def test_halves_and_complex_numbers(self, device):
        x, z = torch.randn(5).half(), torch.randn(5, dtype=torch.complex64).to(torch.complex32)
        for op in (lambda x, z: x * 1j, lambda x, z: 2 - 1j + x, lambda x, z: x * z, lambda x, z: z - x):
            got, want = op(x.to(device), z.to(device)), op(x, z)
            self.assertEqual((got.dtype, want.dtype), (torch.complex32, torch.complex32))
            self.assertEqual(got.cpu().to(torch.complex64), want.to(torch.complex64), atol=4e-3, rtol=4e-3)
        with self.assertRaisesRegex(RuntimeError, "can't be cast"):
            x.to(device).mul_(1j)

    def test_scaled_mm(self, device):
        a, b = some(torch.float8_e4m3fn, 17, 32), some(torch.float8_e4m3fn, 16, 32).t()
        scales = torch.rand(17, 1) * 0.1, torch.rand(1, 16)
        got = torch._scaled_mm(*(t.to(device) for t in (a, b, *scales)), out_dtype=torch.bfloat16)
        want = ((a.float() * scales[0]) @ (b.float() * scales[1])).bfloat16()
        self.assertEqual(got.cpu(), want)
        one = torch.ones((), device=device)
        with self.assertRaisesRegex(RuntimeError, r"cannot be multiplied \(17x32 and 16x32\)"):
            torch._scaled_mm(a.to(device), b.t().to(device), one, one)
        with self.assertRaisesRegex(RuntimeError, r"scale_a must have one element or the shape \[17, 1\], got \[3\]"):
            torch._scaled_mm(a.to(device), b.to(device), torch.ones(3, device=device), one)


instantiate_device_type_tests(TestConversions, globals(), only_for="privateuse1")
instantiate_device_type_tests(TestOps, globals(), only_for="privateuse1")
