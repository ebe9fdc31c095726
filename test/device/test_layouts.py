# SPDX-License-Identifier: BSD-3-Clause
"""Layouts that the device does not have are refused with a clear error; jagged ones work."""

from __future__ import annotations

import torch
from opinfo_suite import DeviceTestCase, collected
from torch.testing._internal import common_utils
from torch.testing._internal.common_device_type import instantiate_device_type_tests

LAYOUTS = (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)


class TestLayouts(DeviceTestCase):
    """The device has dense tensors only. Everything else is refused, by its name, in every fallback mode."""

    def refused(self, what):
        return self.assertRaisesRegex((NotImplementedError, RuntimeError), f"{what}.*atalla device")

    def name(self, layout):
        return str(layout).replace(".", r"\.")

    @common_utils.parametrize("mode", ["error", "silent"])
    @common_utils.parametrize("layout", LAYOUTS)
    def test_sparse(self, device, layout, mode):
        import torch_atalla

        dense = torch.eye(4)
        blocks = {"blocksize": (2, 2)} if layout in (torch.sparse_bsr, torch.sparse_bsc) else {}
        host = dense.to_sparse(layout=layout, **blocks)
        with torch_atalla.fallback.mode(mode):
            with self.refused(self.name(layout)):
                host.to(device)
            with self.refused(self.name(layout)):
                dense.to(device).to_sparse(layout=layout, **blocks)
            with self.refused(self.name(layout)):
                torch.empty(4, 4, layout=layout, device=device)
            with self.assertRaises((NotImplementedError, RuntimeError)):
                dense.to(device) @ host
        torch.atalla.synchronize()

    def test_sparse_constructors(self, device):
        i, v = torch.tensor([[0, 1], [1, 0]]), torch.ones(2)
        with self.refused("sparse_coo"):
            torch.sparse_coo_tensor(i, v, (2, 2), device=device)
        with self.refused("sparse_coo"):
            torch.sparse_coo_tensor(i.to(device), v.to(device), (2, 2))
        with self.refused("sparse_coo"):
            torch.sparse_coo_tensor((2, 2), device=device)
        rows, columns = torch.tensor([0, 1, 2]), torch.tensor([1, 0])
        with self.refused("sparse_csr"):
            torch.sparse_csr_tensor(rows, columns, v, (2, 2), device=device)
        with self.refused("sparse_csr"):
            torch.sparse_csr_tensor(rows.to(device), columns.to(device), v.to(device), (2, 2))
        with self.refused("sparse_bsr"):
            torch.sparse_bsr_tensor(rows, columns, torch.ones(2, 1, 1), (2, 2), device=device)

    def test_sparse_gradient(self, device):
        table = torch.nn.Embedding(4, 2, sparse=True, device=device)
        with self.refused("sparse_coo"):
            table(torch.tensor([1], device=device)).sum().backward()

    def test_quantized(self, device):
        x = torch.randn(4)
        with self.refused("quantized"):
            torch.quantize_per_tensor(x, 0.1, 0, torch.qint8).to(device)
        with self.refused("quantized"):
            torch.quantize_per_tensor(x.to(device), 0.1, 0, torch.qint8)
        with self.refused("quantized"):
            torch.quantize_per_channel(x.to(device), torch.ones(4), torch.zeros(4), 0, torch.qint8)
        with self.refused("quantized"):
            torch._empty_affine_quantized((2,), scale=1.0, zero_point=0, dtype=torch.qint8, device=device)

    def test_mkldnn(self, device):
        with self.refused("_mkldnn"):
            torch.randn(4, device=device).to_mkldnn()
        with self.assertRaisesRegex(RuntimeError, "mkldnn layout: atalla"):
            torch.randn(4).to_mkldnn().to(device)
        with self.assertRaisesRegex(RuntimeError, "mkldnn layout: atalla"):
            torch.empty(4, layout=torch._mkldnn, device=device)

    def test_nested(self, device):
        """A nested tensor only holds its parts: every op refuses."""
        parts = [torch.randn(2, 3), torch.randn(4, 3)]
        with self.refused("nested"):
            torch.nested.nested_tensor(parts).to(device)
        nested = torch.nested.nested_tensor([p.to(device) for p in parts])
        for f in (lambda t: t + 1, lambda t: t.sum(), lambda t: t.clone(), lambda t: t.to("cpu")):
            with self.refused("nested"):
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
    assert collected(globals(), "TestLayouts") >= 17
