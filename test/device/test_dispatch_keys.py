# SPDX-License-Identifier: BSD-3-Clause
"""Each operator with a kernel for the CPU has one for the device under the same dispatch key, or a reason."""

import pytest
import torch
from torch.testing._internal.common_utils import TestCase
from torch_version import recorded

from tools import dispatch_keys
from tools.dispatch_keys import Operator


@recorded
@pytest.mark.skipif(torch.version.cuda is not None, reason="the record is of a build for the CPU")
class TestDispatchKeys(TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.operators = dispatch_keys.collect()

    def test_every_operator_has_a_kernel_or_a_reason(self):
        self.assertEqual(dispatch_keys.problems(), [])
        counts = {key: sum(o.key == key for o in self.operators) for key in dispatch_keys.KEYS}
        self.assertTrue(all(count >= 100 for count in counts.values()), counts)

    def test_lazy_bits_of_operators_without_results(self):
        # Upstream's fallbacks take the result of an operator that writes an argument from behind the empty stack.
        checked = []
        for schema in torch._C._jit_get_all_schemas():
            name = schema.name + ("." + schema.overload_name if schema.overload_name else "")
            written = [a for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write]
            if schema.returns or not any(isinstance(a.type, torch._C.TensorType) for a in written):
                continue
            if not name.startswith("aten::") or name.startswith("aten::_"):  # upstream allocates what these write
                continue
            if not torch._C._dispatch_has_kernel_for_dispatch_key(name, "PrivateUse1"):
                continue
            checked.append(name)
            table = torch._C._dispatch_dump_table(name)
            for key in ("Conjugate", "Negative", "ZeroTensor"):
                self.assertRegex(table, rf"(?m)^{key}: fallthrough .*\[kernel\]", name)
        self.assertIn("aten::record_stream", checked)

    def test_problems_are_found(self):
        operators = [Operator("CPU", "here", True), Operator("CPU", "gone", False), Operator("SparseCPU", "gone", True)]
        self.assertEqual(dispatch_keys.missing_kernels(operators, {"CPU": {"gone": "why"}}), [])
        self.assertRegex(dispatch_keys.missing_kernels(operators, {})[0], "gone .* neither a kernel under PrivateUse1")
        stale = {"CPU": {"gone": "why", "here": "why", "other": "why"}, "SparseCPU": {"gone": "why"}}
        for text, expected in zip(
            dispatch_keys.missing_kernels(operators, stale),
            ("here is stale", "other is for an operator without", "gone is stale"),
            strict=True,
        ):
            self.assertIn(expected, text)
