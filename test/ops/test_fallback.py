# SPDX-License-Identifier: BSD-3-Clause
"""Ops that are not native: right answers, counted, warned about or forbidden."""

import warnings

import torch
from torch.testing._internal.common_utils import TestCase

from torch_atalla import fallback


def fake_quantize(x: torch.Tensor) -> torch.Tensor:
    """An op for which the chip has no kernel."""
    return torch.fake_quantize_per_tensor_affine(x, 0.1, 0, 0, 255)


NAME = "aten::fake_quantize_per_tensor_affine_cachemask"


class TestFallback(TestCase):
    def setUp(self):
        super().setUp()
        fallback.reset()

    def test_forbidden_names_op_and_dtypes(self):
        x = torch.ones(3, device="atalla")
        with fallback.mode("error"), self.assertRaisesRegex(NotImplementedError, NAME + r".*float32"):
            fake_quantize(x)
        self.assertEqual(fallback.total(), 0)

    def test_counts(self):
        x = torch.rand(3, device="atalla") + 1
        with fallback.mode("silent"):
            for _ in range(3):
                y = fake_quantize(x)
        self.assertEqual(y.cpu(), fake_quantize(x.cpu()))
        self.assertEqual(y.device, x.device)
        (row,) = fallback.stats()
        self.assertTrue(row.op.startswith(NAME))
        self.assertEqual(row.count, 3)

    def test_warns_once_at_the_users_line(self):
        x = torch.rand(3, device="atalla") + 1
        with fallback.mode("warn"), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(2):
                fake_quantize(x)
        mine = [w for w in caught if "fake_quantize" in str(w.message)]
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

    def test_out_and_several_results(self):
        x = torch.rand(4, 3).t()
        expected = torch.ops.aten.fake_quantize_per_tensor_affine_cachemask(x, 0.1, 0, 0, 255)
        with fallback.mode("silent"):
            d = x.t().to("atalla").t()
            found = torch.ops.aten.fake_quantize_per_tensor_affine_cachemask(d, 0.1, 0, 0, 255)
            self.assertEqual([t.cpu() for t in found], list(expected))
            for out in (torch.empty(0, device="atalla"), torch.empty(4, 3, device="atalla").t()):
                mask = torch.empty(0, dtype=torch.bool, device="atalla")
                result, _ = torch.ops.aten.fake_quantize_per_tensor_affine_cachemask.out(
                    d, 0.1, 0, 0, 255, out0=out, out1=mask
                )
                self.assertIs(result, out)
                self.assertEqual(out.cpu(), expected[0])
                self.assertEqual(mask.cpu(), expected[1])

    def test_written_inputs_and_views(self):
        """Operands that the op writes are the device's own memory, also through views."""
        x, scale, zero = torch.rand(3, 8), torch.tensor([1.0]), torch.tensor([0], dtype=torch.int32)
        observer = [torch.tensor([0.0]), torch.tensor([0.0])]
        flags = [torch.tensor([1]), torch.tensor([1])]
        arguments = (0.01, 0, 255, -1, False, False)

        def run(device: str) -> list[torch.Tensor]:
            base = x.to(device)
            state = [t.clone().to(device) for t in (*flags, *observer, scale, zero)]
            y = torch.fused_moving_avg_obs_fake_quant(base[:, ::2], *state, *arguments)
            return [y.cpu(), *(t.cpu() for t in state)]

        expected = run("cpu")
        with fallback.mode("silent"):
            found = run("atalla")
        self.assertGreater(fallback.total(), 0)
        self.assertEqual(found, expected)

    def test_conversion_of_a_dtype_that_the_chip_lacks(self):
        x = torch.tensor([1, 2, 128], dtype=torch.float32).to(torch.float8_e8m0fnu)
        with fallback.mode("silent"):
            self.assertEqual(x.to("atalla", torch.float32).cpu(), x.float())
            self.assertEqual([row.op for row in fallback.stats()], ["aten::_copy_from"])
            fallback.reset()
            self.assertEqual(torch.ones(3, dtype=torch.float64).to("atalla", torch.float32).cpu(), torch.ones(3))
        self.assertEqual(fallback.total(), 0)
