# SPDX-License-Identifier: BSD-3-Clause
"""Compiled functions that write arguments which share memory, against eager mode."""

import itertools

import torch
from torch.testing._internal.common_utils import TestCase, run_tests

DEVICE = "atalla"


def update(x, y, z):
    x.mul_(2), y.add_(1)
    return x + y * 3 + z.sum()


def update_in_order(x, y, z):
    y.mul_(2)
    x.copy_((y + 1).t())
    return z + x, y.sum(0)


class TestSharedMemory(TestCase):
    def test_views_that_do_not_know_their_base(self):
        for mode, plain in itertools.product((torch.inference_mode, torch.no_grad), (update, update_in_order)):
            results = []
            for function in (plain, torch.compile(plain)):
                with mode():
                    memory = torch.arange(18.0, device=DEVICE)
                    x = memory.view(3, 6)[..., ::2]
                    results.append((function(x, x.view_as(x), torch.ones(3, 3, device=DEVICE)), memory))
            self.assertEqual(results[0], results[1], msg=f"{mode.__name__}, {plain.__name__}")

    def test_other_memory_than_in_the_trace(self):
        """Whatever the arguments share, in whatever order: none, all, a part, another part of one storage."""

        def part(x, y):
            x[:1].mul_(3)
            return y + 1, x.sum()

        def pieces(x, y):
            x[:1].mul_(3)
            torch._dynamo.graph_break()
            return torch.nn.functional.dropout(y, 0.5), x.sum()

        ways = {
            "none": lambda a: (a[1:4], a.clone()[1:4]),
            "same": lambda a: (a[1:4], a[1:4]),
            "other": lambda a: (a[1:4], a[5:8]),
            "later": lambda a: (a[1:4], a[2:5]),
            "earlier": lambda a: (a[2:5], a[1:4]),
        }
        for function, dynamic, mode, grad in (  # each pair of values; the fuzzer of state has all
            (part, False, "default", False),
            (part, True, "reduce-overhead", True),
            (pieces, False, "reduce-overhead", True),
            (pieces, True, "default", True),
            (pieces, True, "reduce-overhead", False),
        ):
            for first in ("none", "same", "later"):
                torch._dynamo.reset()
                compiled = torch.compile(function, dynamic=dynamic, mode=mode)
                for way in (first, *ways, first):
                    results = []
                    for call in (function, compiled):
                        memory = torch.arange(8.0, device=DEVICE)
                        torch.manual_seed(1)
                        with torch.set_grad_enabled(grad):
                            results.append((call(*ways[way](memory)), memory))
                    self.assertEqual(*results, msg=f"{function.__name__}, {first}, {way}, {dynamic}, {mode}, {grad}")


if __name__ == "__main__":
    run_tests()
