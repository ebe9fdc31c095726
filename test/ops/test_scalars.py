# SPDX-License-Identifier: BSD-3-Clause
"""Numbers as arguments at the borders of the dtypes, narrow sums, and tensors without memory, against the CPU."""

import itertools

import torch
from torch.testing._internal.common_device_type import instantiate_device_type_tests
from torch.testing._internal.common_utils import TestCase, run_tests

import torch_atalla

NUMBERS = (2**63 - 1, 2**63, 2**64 - 1, -(2**63), 65520, 1e30, 1e39, float("inf"), float("nan"), True, 1 + 2j)
DTYPES = (torch.uint8, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64)
CALLS = {
    "fill_": lambda x, mask, index, s: x.fill_(s),
    "fill_ of one": lambda x, mask, index, s: x[:1].fill_(s),
    "full": lambda x, mask, index, s: torch.full((3,), s, dtype=x.dtype, device=x.device),
    "scalar_tensor": lambda x, mask, index, s: torch.scalar_tensor(s, dtype=x.dtype, device=x.device),
    "masked_fill": lambda x, mask, index, s: x.masked_fill(mask, s),
    "where": lambda x, mask, index, s: torch.where(mask, x, s),
    "index_fill": lambda x, mask, index, s: x.index_fill(0, index, s),
    "scatter": lambda x, mask, index, s: x.scatter(0, index, s),
    "add": lambda x, mask, index, s: x + s,
    "add_": lambda x, mask, index, s: x.add_(s),
    "alpha": lambda x, mask, index, s: torch.add(x, x, alpha=s),
    "rsub": lambda x, mask, index, s: s - x,
    "mul": lambda x, mask, index, s: x * s,
    "eq": lambda x, mask, index, s: x == s,
    "gt": lambda x, mask, index, s: x > s,
    "clamp": lambda x, mask, index, s: x.clamp(max=s),
}


def outcome(call, dtype, device, number):
    x = torch.tensor([0, 1, 1]).to(dtype).to(device)
    mask, index = torch.tensor([True, False, True], device=device), torch.tensor([1], device=device)
    try:
        return call(x, mask, index, number).cpu()
    except (RuntimeError, NotImplementedError):
        return "refused"


class TestScalars(TestCase):
    def setUp(self):
        super().setUp()
        self.addCleanup(torch_atalla.fallback.mode, torch_atalla.fallback.mode())
        torch_atalla.fallback.mode("error")

    def test_numbers(self, device):
        for (name, call), dtype, number in itertools.product(CALLS.items(), DTYPES, NUMBERS):
            if name == "alpha" and (dtype.is_complex or dtype.is_floating_point and torch.finfo(dtype).bits == 16):
                continue  # upstream's CPU kernel refuses what its CUDA kernel takes
            if name == "rsub" and dtype in (torch.float16, torch.bfloat16):
                continue  # the CPU rounds the number to the dtype first, CUDA and the device compute in float32
            want, got = outcome(call, dtype, "cpu", number), outcome(call, dtype, device, number)
            if isinstance(got, str) or isinstance(want, str):
                self.assertIs(type(got), type(want), msg=f"{name} {dtype} {number}: {got}, expected {want}")
            else:
                self.assertEqual(got, want, msg=f"{name} {dtype} {number}")

    def test_narrow_sums(self, device):
        places = torch.zeros(2000, dtype=torch.long)
        calls = {
            "index_add": lambda out, index, terms: out.index_add(0, index, terms),
            "index_put": lambda out, index, terms: out.index_put((index,), terms, accumulate=True),
            "put_": lambda out, index, terms: out.put_(index, terms, accumulate=True),
            "index_reduce": lambda out, index, terms: out.index_reduce(0, index, terms, "mean") * 2001,
            "scatter_add": lambda out, index, terms: out.scatter_add(0, index, terms),
        }
        for (name, call), dtype in itertools.product(calls.items(), (torch.float16, torch.bfloat16)):
            terms = torch.rand(2000, generator=torch.Generator().manual_seed(0)).to(dtype)
            out = call(torch.zeros(2, dtype=dtype, device=device), places.to(device), terms.to(device))
            want = terms.double().sum()
            self.assertEqual(
                out[0].double().cpu(), want, rtol=2 * torch.finfo(dtype).eps, atol=0, msg=f"{name} {dtype}"
            )

    def test_conj_physical_in_place(self, device):
        x = torch.randn(4, dtype=torch.complex64)
        self.assertEqual(x.to(device).conj_physical_(), x.conj())
        self.assertEqual(x.to(device).conj().conj_physical_(), x)

    def test_products_of_tensors_without_memory(self, device):
        for dtype in (torch.float32, torch.float64, torch.complex64):
            x, zeros = (
                torch.ones(3, dtype=dtype, device=device),
                torch._efficientzerotensor((3,), dtype=dtype, device=device),
            )
            for product in (torch.dot, torch.vdot, torch.inner):
                for operands in ((x, zeros), (zeros, x)):
                    self.assertEqual(product(*operands).cpu(), torch.zeros((), dtype=dtype))


instantiate_device_type_tests(TestScalars, globals(), only_for=("atalla",))

if __name__ == "__main__":
    run_tests()
