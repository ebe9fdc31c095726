# SPDX-License-Identifier: BSD-3-Clause
"""The memory plan against what the device allocates; coverage by op and by FLOPs."""

from __future__ import annotations

from unittest import mock

import pytest
import torch
from test_export_schedule import MODELS, built
from torch import nn
from torch.export import Dim
from torch.testing._internal.common_utils import TestCase, instantiate_parametrized_tests, parametrize

import torch_atalla
from torch_atalla.compiler import compile_program
from torch_atalla.compiler.file.report import make_report
from torch_atalla.compiler.lower.recorded import lower_recorded
from torch_atalla.loadable.errors import NotNativeError
from torch_atalla.loadable.report import LoadableReport


def rounded(nbytes: int, to: int = 512) -> int:
    """As the caching allocator counts a block."""
    return -(-nbytes // to) * to


class TestPlanAndDevice(TestCase):
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path):
        self.path = tmp_path / "model.atl"

    @parametrize("name", list(MODELS))
    def test_planned_peak_is_the_observed_one(self, name):
        """What loading takes is weights, arena and states; what a run takes on top of that are its outputs."""
        exported, args = built(name)
        report = torch_atalla.save_loadable(exported, self.path)
        self.assertGreaterEqual(report.arena_bytes, report.arena_lower_bound)
        self.assertGreaterEqual(report.arena_without_reuse, report.arena_bytes)
        inputs = [arg.to("atalla") for arg in args]
        torch.atalla.synchronize()
        before = torch.atalla.memory_allocated()
        torch.atalla.reset_peak_memory_stats()
        program = torch_atalla.load_loadable(self.path)
        loaded = torch.atalla.memory_allocated() - before
        header = torch_atalla.driver.runtime.Program(str(self.path))
        weights = header.info()["weight_bytes"]
        header.close()
        self.assertEqual(loaded, rounded(weights) + rounded(report.arena_bytes))
        out = program(*inputs)
        torch.atalla.synchronize()
        if report.host_calls == 0:
            peak = torch.atalla.max_memory_allocated() - before
            self.assertEqual(peak, loaded + rounded(out.numel() * out.element_size()))

    def test_views_share_the_memory_of_what_they_see(self):
        class Views(nn.Module):
            def forward(self, x):
                y = torch.softmax(x, -1)
                parts = y.view(4, 2, 8).transpose(0, 1)
                return torch.cumsum(parts[1], 0) + y.unsqueeze(0)[0, :, 3:4]

        compiled = compile_program(Views(), (torch.randn(4, 16),), optimize="none")
        softmax, cumsum = compiled.program.instructions[:2]
        self.assertEqual(cumsum.inputs[0].buffer, softmax.outputs[0].buffer)
        self.assertEqual(sum(len(slot.buffers) for slot in compiled.plan.slots), 2)

    def test_arena_at_the_bounds(self):
        """One arena for all sizes of a bounded program: the observed peak does not follow the call."""
        module = nn.Sequential(nn.Linear(32, 64), nn.Softmax(-1), nn.Linear(64, 8))
        shapes = ({0: Dim("n", min=2, max=100)},)
        report = torch_atalla.save_loadable(
            torch.export.export(module.eval(), (torch.randn(5, 32),), dynamic_shapes=shapes), self.path
        )
        self.assertEqual(report.arena_bytes, 2 * 100 * 64 * 4)
        program = torch_atalla.load_loadable(self.path)
        peaks = []
        for n in (2, 100):
            x = torch.randn(n, 32, device="atalla")
            torch.atalla.synchronize()
            torch.atalla.reset_peak_memory_stats()
            before = torch.atalla.memory_allocated()
            out = program(x)
            torch.atalla.synchronize()
            peaks.append(torch.atalla.max_memory_allocated() - before - rounded(out.numel() * 4))
        self.assertEqual(peaks, [0, 0])


class Products(nn.Module):
    """Two products on the chip, one that only the host has, and an op without FLOPs there."""

    def forward(self, x, z):
        native = torch.mv(x @ x.t(), x[:, 0])
        return native, z @ z, torch.sort(native)[0]


class TestCoverage(TestCase):
    def report(self) -> LoadableReport:
        torch.manual_seed(0)
        args = (torch.randn(8, 16), torch.randn(4, 4, dtype=torch.complex64))

        def lower(ctx, node, arguments):
            if node.target is torch.ops.aten.mm.default and node.meta["val"].is_complex():
                raise NotNativeError("dtype complex64 not taken")
            return lower_recorded(ctx, node, arguments)

        with mock.patch("torch_atalla.compiler.lower.node.lower_recorded", lower):
            return make_report(compile_program(Products(), args))

    def test_by_ops_and_by_flops(self):
        report = self.report()
        rows = {row.op: row for row in report.by_op}
        self.assertEqual((rows["aten::mv"].flops, rows["aten::mv"].native_flops), (2 * 8 * 8, 2 * 8 * 8))
        products = [row for name, row in rows.items() if name == "aten::mm"]
        self.assertEqual([(row.nodes, row.native) for row in products], [(2, 1)])
        self.assertEqual(products[0].flops - products[0].native_flops, 2 * 4 * 4 * 4)
        self.assertEqual(sum(row.flops for row in report.by_op), report.flops)
        self.assertEqual(sum(row.native for row in report.by_op), report.native_ops)
        self.assertEqual(report.coverage_flops, (2 * 8 * 8 * 16 + 128) / (2 * 8 * 8 * 16 + 128 + 128))
        self.assertRegex(report.coverage_table(), r"aten::mm +1 +2 +\d\d\.\d%")

    def test_every_node_that_is_not_native_has_its_reason(self):
        report = self.report()
        refused = {op.op: op for op in report.unsupported}
        self.assertEqual(report.ops - report.native_ops, len(report.unsupported))
        self.assertEqual(refused["aten::mm"].reason, "dtype complex64 not taken")
        self.assertTrue(all(op.reason and op.source.startswith("test_export_memory.py:") for op in report.unsupported))
        self.assertGreaterEqual(report.host_bytes, 2 * 4 * 4 * 8)  # the product's operand and its result
        self.assertEqual(report, LoadableReport.from_json(report.to_json()))


instantiate_parametrized_tests(TestPlanAndDevice)
