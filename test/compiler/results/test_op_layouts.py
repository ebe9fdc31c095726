# SPDX-License-Identifier: BSD-3-Clause
"""Strides and values of the results of programs, for inputs of all layouts: loadables and compiled functions."""

from __future__ import annotations

from pathlib import Path

import torch
from export_suite import Fn
from torch.nn import functional as F
from torch.testing._internal.common_utils import TEST_WITH_SLOW, TestCase

import torch_atalla
from tools.layout_sweep import differences, selected

# One op of each way in which a program gives its result strides.
QUICK = ("abs", "clamp", "nn.functional.logsigmoid", "sum", "nn.functional.batch_norm", "nn.functional.avg_pool2d")


class TestOpLayouts(TestCase):
    def test_loadables(self):
        self.check(QUICK, ("loadable",))

    def test_compiled(self):
        self.check(("lerp", "nn.functional.batch_norm"), ("compiled",))

    def test_all_ops(self):
        if not TEST_WITH_SLOW:
            self.skipTest("takes an hour")
        self.check((), ("loadable", "compiled"))

    def check(self, names, paths):
        ops = selected(names, 1, 0)
        self.assertGreaterEqual(len(ops), len(names))
        with torch_atalla.fallback.mode("error"):
            found = [text for op in ops for text in differences(op, 2, paths)]
        self.assertEqual(found, [])


class TestStridesOfEagerMode(TestCase):
    """Where upstream's fake tensors have other strides than the kernels, results have those of the kernels."""

    def test_what_follows_a_contiguous_result(self):
        def forward(m, x, mean, var):
            y = F.batch_norm(x, mean, var)
            several = F.batch_norm(x, None, None, training=True), F.instance_norm(x), F.logsigmoid(x) * 2
            return (y, y.relu() + 1, y.sum(1), y.clone().add_(x), torch.cat([y, y], 1), y.split(1, 1), *several)

        path = Path(self.enterContext(torch.testing._internal.common_utils.TemporaryDirectoryName())) / "m.atl"
        for x in (torch.randn(3, 4, 2).mT, torch.randn(3, 4, 2, 5).transpose(1, 2), torch.randn(2, 3, 2, 2)):
            for kept in (x, x.contiguous(memory_format=torch.channels_last) if x.ndim == 4 else x):
                channels = kept.shape[1]
                args = kept, torch.randn(channels), torch.rand(channels)
                module = Fn(forward).eval()
                torch_atalla.save_loadable(torch.export.export(module, args), path, fallback="error", golden=False)
                given = [kept.to("atalla"), *(a.to("atalla") for a in args[1:])]
                self.assertEqual(given[0].stride(), kept.stride())
                results = torch.utils._pytree.tree_leaves(torch_atalla.load_loadable(path)(*given))
                wanted = torch.utils._pytree.tree_leaves(module(*given))
                host = torch.utils._pytree.tree_leaves(module(*args))
                for a, b, c in zip(results, wanted, host, strict=True):
                    self.assertEqual((a.stride(), b.stride()), (c.stride(), c.stride()))
                    self.assertEqual(a, b, rtol=0, atol=0)
