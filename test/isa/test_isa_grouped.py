# SPDX-License-Identifier: BSD-3-Clause
"""Products by groups of rows as Atalla code, against float64: empty groups, rows without a group, faults."""

from __future__ import annotations

import math

import torch
from isa_kernels import BF16, CodegenTestCase, bf16, run_launch
from torch.testing._internal.common_utils import instantiate_parametrized_tests, parametrize


def exact_product(a, w, ends):
    out = torch.zeros(a.shape[0], w.shape[2], dtype=torch.float64)
    begin = 0
    for group, end in enumerate(ends):
        out[begin:end] = a[begin:end].double() @ w[group].double()
        begin = end
    return out


class TestGroupedProducts(CodegenTestCase):
    def run_groups(self, a, w, ends, constant):
        out = torch.empty(a.shape[0], w.shape[2], dtype=BF16)
        given = [a, w, torch.tensor(ends, dtype=torch.int32)]
        return run_launch("gemm_grouped", out, given, constants=(1,) if constant else (), timing=True)

    @parametrize("layout", ["packed", "rows", "columns"])
    @parametrize(
        "m,k,n,ends",
        [
            (33, 40, 70, [5, 5, 20, 33]),
            (33, 40, 70, [0, 7, 9, 12, 12, 30]),
            (1, 32, 33, [0, 1]),
            (40, 65, 31, [11, 12, 13, 14, 15, 16, 17, 18, 40]),
            (70, 31, 1, [70]),
            (5, 1, 64, [0, 0, 0]),
        ],
    )
    def test_sizes(self, layout, m, k, n, ends):
        a, w = bf16(m, k), bf16(len(ends), k, n, seed=1)
        if layout == "rows":
            w = w.transpose(1, 2).contiguous().transpose(1, 2)
        run = self.run_groups(a, w, ends, layout == "packed")
        self.check(run.outputs[0], exact_product(a, w, ends))

    def test_columns_of_a_transposed_matrix(self):
        a, w, ends = bf16(40, 33).t(), bf16(2, 40, 70, seed=1), [20, 33]
        self.check(self.run_groups(a, w, ends, True).outputs[0], exact_product(a, w, ends))

    def test_special_values_stay_in_their_rows(self):
        a, w, ends = bf16(40, 65), bf16(4, 65, 31, seed=1), [11, 20, 30, 35]
        a[3, 0], a[20, 1], a[37, 2] = math.inf, math.nan, math.nan  # the last row is in no group
        w[1, 5, 7] = math.inf
        for constant in (True, False):
            found = self.run_groups(a, w.transpose(1, 2).contiguous().transpose(1, 2), ends, constant).outputs[0]
            exact = exact_product(a, w, ends)
            self.assertEqual(found.isnan(), exact.isnan())
            self.assertEqual(found.isinf(), exact.isinf())
            finite = exact.isfinite()
            self.check(torch.where(finite, found, 0.0), torch.where(finite, exact, 0.0))
            self.assertTrue((found[35:] == 0).all())

    @parametrize("ends", [[5, 3, 10], [5, 41], [-1, 3]])
    def test_ends_that_decrease_or_are_out_of_range(self, ends):
        with self.assertRaisesRegex(RuntimeError, "an element does not meet the requirements"):
            self.run_groups(bf16(40, 32), bf16(len(ends), 32, 32), ends, True)

    def test_the_array_computes_the_products(self):
        """At most a fiftieth of the cycles that the scalar core needs, which are more than 20 per multiplication."""
        m, k, n, ends = 64, 64, 64, [10, 30, 50, 64]
        run = self.run_groups(bf16(m, k), bf16(4, k, n), ends, True)
        self.assertLess(run.stats.cycles, 20 * m * k * n // 50)


instantiate_parametrized_tests(TestGroupedProducts)
