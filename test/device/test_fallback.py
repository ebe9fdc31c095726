# SPDX-License-Identifier: BSD-3-Clause
"""Ops that are not native: right answers, counted, warned about or forbidden."""

import warnings
from collections.abc import Callable

import models
import torch
from torch.testing._internal.common_utils import TestCase

from torch_atalla import fallback

NAME = "atalla_test::add_relu.Scalar"


class TestFallback(TestCase):
    def setUp(self):
        super().setUp()
        fallback.reset()

    def test_forbidden_names_op_and_dtypes(self):
        x = torch.ones(3, device="atalla")
        with fallback.mode("error"), self.assertRaisesRegex(NotImplementedError, NAME + r".*float32"):
            models.add_relu(x, 0.1)
        self.assertEqual(fallback.total(), 0)

    def test_tensors_without_elements(self):
        """No value is computed where no tensor has an element: it is allowed for the dtypes that the CPU takes then."""
        draws = ("normal_", "exponential_", "log_normal_", "cauchy_", "random_", "bernoulli_")
        for dtype in (torch.int8, torch.bool, torch.complex64, torch.float8_e4m3fn):
            for draw in draws:

                def run(device: str, draw: str = draw, dtype: torch.dtype = dtype) -> torch.Tensor | str:
                    try:
                        return getattr(torch.empty(2, 0, dtype=dtype, device=device), draw)()
                    except RuntimeError as error:
                        return str(error)

                with fallback.mode("error"):
                    found, expected = run("atalla"), run("cpu")
                if isinstance(expected, torch.Tensor):
                    self.assertEqual(found, expected, exact_device=False, msg=f"{draw} of {dtype}")
        library = torch.library.Library("atalla_test", "FRAGMENT")
        library.define("total(Tensor x) -> Tensor")
        library.impl("total", lambda x: x.sum(), "CPU")
        empty = torch.empty(0, 3, device="atalla")
        with fallback.mode("error"):
            self.assertEqual(models.add_relu(empty, 0.1).shape, empty.shape)
            with self.assertRaisesRegex(NotImplementedError, "is forbidden"):  # its result has an element
                torch.ops.atalla_test.total(empty)
        self.assertEqual(fallback.total(), 0)

    def test_counts(self):
        x = torch.rand(3, device="atalla") + 1
        with fallback.mode("silent"):
            for _ in range(3):
                y = models.add_relu(x, 0.1)
        self.assertEqual(y.cpu(), models.add_relu(x.cpu(), 0.1))
        self.assertEqual(y.device, x.device)
        (row,) = fallback.stats()
        self.assertEqual((row.op, row.dtypes, row.count), (NAME, "float32", 3))

    def test_warns_once_at_the_users_line(self):
        self.check_warning(lambda x: torch._C._nn._test_optional_floatlist(x, [1.0, 2.0, 3.0]), "floatlist")

    def test_warning_of_a_custom_operator(self):
        self.check_warning(lambda x: models.add_relu(x, 0.1), NAME)

    def check_warning(self, op: Callable[[torch.Tensor], torch.Tensor], name: str) -> None:
        x = torch.rand(3, device="atalla") + 1
        with fallback.mode("warn"), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(2):
                op(x)
        self.assertEqual([w.filename for w in caught if name in str(w.message)], [__file__])

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
        expected = models.aminmax(x, 0)
        with fallback.mode("silent"):
            d = x.t().to("atalla").t()
            found = models.aminmax(d, 0)
            self.assertEqual([t.cpu() for t in found], list(expected))
            for out in (torch.empty(0, device="atalla"), torch.empty(8, device="atalla")[::2]):
                other = torch.empty(0, device="atalla")
                result, _ = models.aminmax_out(d, 0, low=out, high=other)
                self.assertIs(result, out)
                self.assertEqual([out.cpu(), other.cpu()], list(expected))

    def test_written_inputs_and_views(self):
        """Operands that the op writes are the device's own memory, also through views."""
        library = torch.library.Library("atalla_test", "FRAGMENT")  # an op that only the CPU has
        library.define("count_into(Tensor x, Tensor(a!) total, Tensor(b!) calls) -> Tensor")

        def count_into(x: torch.Tensor, total: torch.Tensor, calls: torch.Tensor) -> torch.Tensor:
            total.add_(x.sum(0))
            calls.add_(1)
            return x + total

        library.impl("count_into", count_into, "CPU")
        x, total, calls = torch.rand(3, 4), torch.zeros(8), torch.tensor([1])

        def run(device: str) -> list[torch.Tensor]:
            state = [t.clone().to(device) for t in (total, calls)]
            y = torch.ops.atalla_test.count_into(x.to(device), state[0][::2], state[1])
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
