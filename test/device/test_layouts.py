# SPDX-License-Identifier: BSD-3-Clause
"""Layouts and ops on them that the device does not have are refused with a clear error; jagged ones work."""

from __future__ import annotations

import torch
from opinfo_suite import DeviceTestCase, collected
from torch.testing._internal import common_utils
from torch.testing._internal.common_device_type import instantiate_device_type_tests


class TestLayouts(DeviceTestCase):
    """What the device does not have is refused, by its name, in every fallback mode."""

    def refused(self, what):
        return self.assertRaisesRegex((NotImplementedError, RuntimeError), f"{what}.*atalla device")

    @common_utils.parametrize("mode", ["error", "silent"])
    @common_utils.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
    def test_ops_without_a_kernel(self, device, layout, mode):
        import torch_atalla

        x = torch.eye(4).to_sparse(layout=layout).to(device)
        with torch_atalla.fallback.mode(mode):
            with self.refused("tensor of layout Sparse"):
                x.trace()
        torch.atalla.synchronize()

    def test_quantized_ops_without_a_kernel(self, device):
        q = torch.quantize_per_tensor(torch.randn(4, device=device), 0.1, 0, torch.qint8)
        for f in (torch.cos, torch.exp, lambda t: t.cumsum(0)):
            with self.refused("quantized tensor"):
                f(q)

    def test_mkldnn(self, device):
        with self.refused("_mkldnn"):
            torch.randn(4, device=device).to_mkldnn()
        with self.assertRaisesRegex(RuntimeError, "mkldnn layout: atalla"):
            torch.randn(4).to_mkldnn().to(device)
        with self.assertRaisesRegex(RuntimeError, "mkldnn layout: atalla"):
            torch.empty(4, layout=torch._mkldnn, device=device)

    def test_nested_ops_without_a_kernel(self, device):
        parts = [torch.randn(2, 3), torch.randn(4, 3)]
        nested = torch.nested.nested_tensor(parts, device=device)
        for f in (lambda t: t.sum(), lambda t: t.exp(), lambda t: t.new_empty(2)):
            with self.refused("nested tensor of strided layout"):
                f(nested)

    def test_jagged(self, device):
        """Jagged tensors are a subclass over dense ones."""
        parts = [torch.randn(2, 3), torch.randn(4, 3)]
        jagged = torch.nested.nested_tensor(parts, layout=torch.jagged, device=device)
        self.assertEqual(jagged.values().device, torch.device(device))
        doubled = (jagged * 2).sin()
        for got, part in zip(doubled.unbind(), parts):
            self.assertEqual(got.cpu(), (part * 2).sin())


instantiate_device_type_tests(TestLayouts, globals(), only_for=("atalla",))


def test_count() -> None:
    assert collected(globals(), "TestLayouts") >= 9
