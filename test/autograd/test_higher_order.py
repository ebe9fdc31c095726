# SPDX-License-Identifier: BSD-3-Clause
"""Higher-order operators: the device has a rule wherever the CPU or CUDA has one, and the rules do what theirs do."""

from __future__ import annotations

import importlib
import pkgutil
import unittest

import torch
from opinfo_suite import DeviceTestCase, collected, host
from torch import _ops
from torch._C import DispatchKey
from torch._prims import rng_prims
from torch.fx.experimental.proxy_tensor import make_fx
from torch.testing._internal.common_device_type import instantiate_device_type_tests, ops
from torch.testing._internal.hop_db import hop_db

HOSTS = ("CPU", "CUDA")
# register_hook and inline_asm_elementwise are for compiled graphs and for CUDA's assembler; the sample of
# auto_functionalize calls an operator that upstream registers for CPU and CUDA by name.
LEFT_OUT = ("register_hook", "inline_asm_elementwise", "auto_functionalize")
eager_ops = [op for op in hop_db if op.name not in LEFT_OUT]
for op in eager_ops:
    op.dtypesIf["atalla"] = op.dtypes


def registry() -> dict[str, _ops.HigherOrderOperator]:
    """Return all operators that torch defines, after an import of each module that defines some."""
    for module in pkgutil.iter_modules(torch._higher_order_ops.__path__):
        importlib.import_module(f"torch._higher_order_ops.{module.name}")
    return _ops._higher_order_ops


def absent(operator: _ops.HigherOrderOperator) -> list[str]:
    """Return the dispatch keys under which CPU or CUDA has a rule or none is needed, and the device has no rule."""
    found = []
    for prefix in ("", "Autograd", "Autocast"):
        hosts = [getattr(DispatchKey, prefix + host) for host in HOSTS]
        device = getattr(DispatchKey, prefix + "PrivateUse1")
        passed = not operator.non_fallthrough_keys.has(device)
        if any(key in operator.py_kernels for key in hosts) and (device not in operator.py_kernels or passed):
            found.append(device.name)
        if not any(operator.non_fallthrough_keys.has(key) for key in hosts) and not passed:
            found.append(device.name)
    return found


class TestHigherOrder(DeviceTestCase):
    def test_rules_are_complete(self, device):
        operators = registry()
        self.assertGreaterEqual(len(operators), 40)
        self.assertEqual({name: absent(op) for name, op in operators.items() if absent(op)}, {})

    def test_rules_of_an_operator_that_is_defined_later(self, device):
        class Later(_ops.HigherOrderOperator):
            def __call__(self, x):
                return super().__call__(x)

        later = Later("test_higher_order_later")
        try:
            later.py_impl(DispatchKey.CompositeExplicitAutograd)(lambda x: x + 1)
            later.py_autograd_impl(lambda x: x)
            self.assertEqual(absent(later), [])
            with torch.autocast("atalla"), torch.no_grad():
                self.assertEqual(later(torch.ones(2, device=device)), torch.full((2,), 2.0, device=device))
        finally:
            del _ops._higher_order_ops["test_higher_order_later"]

    @ops(eager_ops, allowed_dtypes=(torch.float32,))
    def test_autocast(self, device, dtype, op):
        """Values and dtypes under autocast, and without it, are the CPU's."""
        for enabled in (False, True):
            for ours, cpus in zip(op.sample_inputs(device, dtype), op.sample_inputs("cpu", dtype)):
                cpus.input, cpus.args = host((ours.input, ours.args))
                got, want = (
                    self.run(op, sample, where, enabled) for sample, where in ((ours, "atalla"), (cpus, "cpu"))
                )
                self.assertEqual(host(got), want, atol=2e-2, rtol=2e-2, exact_dtype=True)

    def run(self, result=None, *args):  # pytest's own `run` takes a result
        if not args:
            return super().run(result)
        sample, where, enabled = args
        with torch.autocast(where, torch.bfloat16, enabled=enabled), torch.no_grad():
            return result(sample.input, *sample.args, **sample.kwargs)


class TestRandomRules(DeviceTestCase):
    def setUp(self):
        super().setUp()
        torch.manual_seed(0)

    def test_saved_states(self, device):
        x = torch.empty(9, device=device)
        state, first = rng_prims.run_and_save_rng_state(torch.ops.aten.rand_like.default, x)
        after = torch.atalla.get_rng_state(x.device)
        self.assertEqual(rng_prims.run_with_rng_state(state, torch.ops.aten.rand_like.default, x), first)
        self.assertEqual(torch.atalla.get_rng_state(x.device), after)
        torch.atalla.set_rng_state(state, x.device)
        self.assertEqual(torch.rand_like(x), first)

    def test_device_of_a_factory(self, device):
        state, first = rng_prims.run_and_save_rng_state(torch.ops.aten.rand.default, [9], device=torch.device(device))
        self.assertEqual(first.device, torch.device(device))
        again = rng_prims.run_with_rng_state(state, torch.ops.aten.rand.default, [9], device=torch.device(device))
        self.assertEqual(again, first)

    def test_generator_as_state(self, device):
        x = torch.empty(9, device=device)
        generator = torch.Generator(device)
        generator.manual_seed(3)
        draw = rng_prims.graphsafe_run_with_rng_state
        got = draw(torch.ops.aten.rand_like.default, x, rng_state=generator)
        torch.manual_seed(3)
        self.assertEqual(got, torch.rand_like(x))

    def test_offsets(self, device):
        x = torch.empty(8, device=device)
        before = torch.atalla.get_rng_state(x.device)
        got = rng_prims.run_dtensor_rng_op(16, 64, torch.ops.aten.rand_like.default, x)
        self.assertEqual(torch.atalla.get_rng_state(x.device).view(torch.int64)[1], before.view(torch.int64)[1] + 64)
        at = before.view(torch.int64) + torch.tensor([0, 16])
        torch.atalla.set_rng_state(at.view(torch.uint8), x.device)
        self.assertEqual(torch.rand_like(x), got)

    def test_traced(self, device):
        def f(x):
            state, first = rng_prims.run_and_save_rng_state(torch.ops.aten.rand_like.default, x)
            return first - rng_prims.run_with_rng_state(state, torch.ops.aten.rand_like.default, x)

        x = torch.ones(9, device=device)
        for mode in ("real", "fake"):
            graph = make_fx(f, tracing_mode=mode)(x)
            self.assertEqual(graph(x), torch.zeros_like(x))
            targets = [node.target for node in graph.graph.nodes]
            self.assertIn(rng_prims.run_and_save_rng_state, targets)

    def test_rules_without_a_device(self, device):
        x = torch.ones(3, device=device)
        graph = torch.fx.symbolic_trace(lambda x: x + 1)
        self.assertEqual(_ops._higher_order_ops["run_const_graph"](graph, (x,)), x + 1)
        tracepoint = _ops._higher_order_ops["_export_tracepoint"]
        self.assertEqual(tracepoint(x, kind="module_call_inputs", path="a"), (x,))


class TestCollected(unittest.TestCase):
    def test_minimum(self):
        self.assertGreaterEqual(collected(globals(), "TestHigherOrder", "test_autocast_"), 10)


instantiate_device_type_tests(TestHigherOrder, globals(), only_for=("atalla",))
instantiate_device_type_tests(TestRandomRules, globals(), only_for=("atalla",))
