# SPDX-License-Identifier: BSD-3-Clause
"""Ops that are not native: right answers, counted, warned about or forbidden."""

import warnings

import torch
from torch.testing._internal.common_utils import TestCase, run_tests

from torch_atalla import fallback


class TestFallback(TestCase):
    def setUp(self):
        super().setUp()
        fallback.reset()

    def test_forbidden_names_op_and_dtypes(self):
        x = torch.ones(3, device="atalla")
        with fallback.mode("error"), self.assertRaisesRegex(NotImplementedError, r"aten::lgamma.*float32"):
            torch.lgamma(x)
        self.assertEqual(fallback.total(), 0)

    def test_counts(self):
        x = torch.rand(3, device="atalla") + 1
        with fallback.mode("silent"):
            for _ in range(3):
                y = torch.lgamma(x)
        self.assertEqual(y.cpu(), torch.lgamma(x.cpu()))
        self.assertEqual(y.device, x.device)
        (row,) = fallback.stats()
        self.assertTrue(row.op.startswith("aten::lgamma"))
        self.assertEqual(row.count, 3)

    def test_warns_once_at_the_users_line(self):
        x = torch.rand(3, device="atalla", dtype=torch.float64) + 1
        with fallback.mode("warn"), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(2):
                torch.digamma(x)
        mine = [w for w in caught if "digamma" in str(w.message)]
        self.assertEqual(len(mine), 1)
        self.assertEqual(mine[0].filename, __file__)

    def test_mode(self):
        with fallback.mode("silent"):
            self.assertEqual(fallback.mode(), "silent")
            with fallback.mode("error"):
                self.assertEqual(fallback.mode(), "error")
            self.assertEqual(fallback.mode(), "silent")
        with self.assertRaisesRegex(ValueError, "expected one of"):
            fallback.mode("loud")

    def test_in_place_and_out(self):
        x = torch.rand(3, 4)
        with fallback.mode("silent"):
            d = x.to("atalla").t()
            d.lgamma_()
            self.assertEqual(d.cpu(), x.t().lgamma())
            for out in (torch.empty(0, device="atalla"), torch.empty(4, 3, device="atalla").t()):
                result = torch.lgamma(x.to("atalla"), out=out)
                self.assertIs(result, out)
                self.assertEqual(out.cpu(), x.lgamma())

    def test_view_inputs_and_lists(self):
        x = torch.randn(4, 5)
        with fallback.mode("silent"):
            d = x.to("atalla")
            self.assertEqual(torch.linalg.inv(d[:, 1:] + 5 * torch.eye(4, device="atalla")).cpu(),
                             torch.linalg.inv(x[:, 1:] + 5 * torch.eye(4)))  # fmt: skip
            self.assertEqual(torch.linalg.multi_dot([d, d.t(), d]).cpu(), torch.linalg.multi_dot([x, x.t(), x]))
            v, i = torch.topk(d, 2)
            ev, ei = torch.topk(x, 2)
            self.assertEqual((v.cpu(), i.cpu()), (ev, ei))

    def test_complex_arithmetic_falls_back(self):
        x = torch.randn(3, dtype=torch.complex64)
        with fallback.mode("silent"):
            self.assertEqual((x.to("atalla") * 2j).cpu(), x * 2j)
        self.assertGreater(fallback.total(), 0)

    def test_conversion_of_a_dtype_that_the_chip_lacks(self):
        x = torch.tensor([0, 1, 60000], dtype=torch.uint16)
        with fallback.mode("silent"):
            self.assertEqual(x.to("atalla", torch.float32).cpu(), x.float())
            self.assertEqual([row.op for row in fallback.stats()], ["aten::_copy_from"])
            fallback.reset()
            self.assertEqual(torch.ones(3, dtype=torch.float64).to("atalla", torch.float32).cpu(), torch.ones(3))
        self.assertEqual(fallback.total(), 0)

    def test_convolution_transposed(self):
        x, w = torch.randn(1, 2, 5, 5), torch.randn(2, 3, 3, 3)
        with fallback.mode("silent"):
            y = torch.nn.functional.conv_transpose2d(x.to("atalla"), w.to("atalla"))
        self.assertEqual(y.cpu(), torch.nn.functional.conv_transpose2d(x, w), atol=1e-5, rtol=1e-5)


if __name__ == "__main__":
    run_tests()
