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


if __name__ == "__main__":
    run_tests()
