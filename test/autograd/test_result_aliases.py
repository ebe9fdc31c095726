# SPDX-License-Identifier: BSD-3-Clause
"""Results of operators whose schema has no alias share memory neither with an argument nor with each other.

Autograd sets the history of what an operator returns. An operator that returns its argument gives the argument that
history, and later derivatives are lost. Reference: the CPU, whose operators may do it where upstream's own do.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from opinfo_suite import DeviceTestCase, applicable, collected, native_ops, samples
from torch.testing._internal.common_device_type import instantiate_device_type_tests, ops
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from torch_atalla.testing import sample_on

UPSTREAM = {"aten._unsafe_view.default", "aten.unsafe_split.Tensor"}  # "unsafe": they return views without saying so


def storages(values: Any) -> Iterator[int]:
    for x in tree_leaves(values):
        if isinstance(x, torch.Tensor) and x.layout == torch.strided and x.numel():
            yield x.untyped_storage()._cdata


class SharedResults(TorchDispatchMode):
    """Collects the names of the operators that return memory which is not theirs to return."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if not any(value.alias_info for value in func._schema.returns):
            given, found = set(storages((args, kwargs))), list(storages(result))
            if given & set(found) or len(set(found)) < len(found):
                self.names.add(str(func))
        return result


def gradients(result: Any, arguments: Any) -> None:
    outs = [x for x in tree_leaves(result) if isinstance(x, torch.Tensor) and x.requires_grad]
    leaves = [x for x in tree_leaves(arguments) if isinstance(x, torch.Tensor) and x.requires_grad]
    if outs and leaves:
        torch.autograd.grad(outs, leaves, [torch.ones_like(out) for out in outs], allow_unused=True)


class TestResultAliases(DeviceTestCase):
    @ops(applicable(native_ops, "TestResultAliases", "test_own_memory"), allowed_dtypes=(torch.float64,))
    def test_own_memory(self, device, dtype, op):
        """Two samples and their gradients, in float64, in which no conversion of types makes a copy by chance."""
        for sample in samples(op, dtype, 2, requires_grad=op.supports_autograd):
            arguments = sample_on(op, sample, "atalla")
            inputs, args, kwargs = arguments
            with SharedResults() as mode:
                result = op(inputs, *args, **kwargs)
                if op.supports_autograd:
                    gradients(result, arguments)
            self.assertEqual(mode.names - UPSTREAM, set())


class TestCollected(DeviceTestCase):
    def test_minimum(self):
        self.assertGreaterEqual(collected(globals(), "TestResultAliases"), 600)

    def test_finds_a_planted_one(self):
        x = torch.ones(2, device="atalla")
        with SharedResults() as mode:
            torch.ops.aten._unsafe_view(x, [2])
        self.assertEqual(mode.names, {"aten._unsafe_view.default"})


instantiate_device_type_tests(TestResultAliases, globals(), only_for=("atalla",))
