# SPDX-License-Identifier: BSD-3-Clause
"""Loadables at each level of optimisation against eager mode on the device, bit for bit where they promise it."""

from __future__ import annotations

import math
import tempfile
import warnings
from pathlib import Path
from typing import Any

import models
import torch
from export_suite import Fn
from torch import nn
from torch.nn import functional as F
from torch.testing._internal.common_utils import TestCase, instantiate_parametrized_tests, parametrize

import torch_atalla
from torch_atalla.compiler import ExportError, compile_program

warnings.filterwarnings("ignore", category=FutureWarning)


CASES: dict[str, tuple[Any, tuple]] = {
    "gelu spelled": (
        lambda m, x: 0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * x.pow(3)))),
        (torch.randn(7, 33),),
    ),
    "rotary": (
        lambda m, x, c: x * c.cos() + torch.cat([-x[..., 8:], x[..., :8]], -1) * c.sin(),
        (torch.randn(2, 5, 16), torch.randn(5, 16)),
    ),
    "masks": (
        lambda m, x: torch.where((x > 0) & (x < 1), x, x.new_zeros(()) - 1).masked_fill(x.isnan(), 0.0),
        (torch.randn(65).index_fill(0, torch.tensor([3]), float("nan")),),
    ),
    "integers": (lambda m, x: ((x * 3 + 1) & x) - x, (torch.arange(100).view(4, 25),)),
    "transposed": (lambda m, x, y: torch.exp(x.t() * 0.5) + y, (torch.randn(70, 40), torch.randn(40, 70))),
    "columns": (lambda m, x, y: (x * y).sigmoid() + 1, (torch.randn(64, 20, 3), torch.randn(20, 1))),
    "scalars": (lambda m, x: (x - 0.0) * -1.5 + x.clamp(-0.25, 0.5), (torch.randn(1),)),
    "conversions": (lambda m, x: (x.to(torch.int32) * 2).float() + (x > 0), (torch.randn(50) * 9,)),
    "elements as indices": (
        lambda m, x, i, j: ((x.exp() + 1)[i] * 2, (x.exp() + 1)[:, j].sigmoid(), x.flatten()[j]),
        (torch.randn(4, 3), torch.tensor(2), torch.tensor(-3, dtype=torch.int32)),
    ),
    "in place": (lambda m, x: (x.exp() * 2).relu().sqrt() + x.exp(), (torch.randn(3, 1024),)),
}


# Of the numbers of a query and of a key.
MASKS: dict[str, Any] = {
    "hides nothing": lambda i, j: (i >= 0) & (j >= 0),
    "adds nothing": lambda i, j: (i * j * 0.0).neg(),
    "before": lambda i, j: j <= i,
    "before, added": lambda i, j: torch.where(j <= i, 0.0, -math.inf),
    "query that sees nothing": lambda i, j: (j < 69) & (i != 3),
}

PAIRS = [(name, torch.float32) for name in CASES]
PAIRS += [(name, torch.bfloat16) for name in ("gelu spelled", "conversions", "columns")]


class TestBits(TestCase):
    """On the device, against eager mode on it."""

    def check(
        self, module: nn.Module, args: tuple, bits: bool = True, **options: Any
    ) -> torch_atalla.loadable.LoadableReport:
        device = [x.to("atalla") for x in args]
        with tempfile.TemporaryDirectory() as folder, torch.no_grad():
            path = Path(folder) / "model.atl"
            program = torch.export.export(module.eval(), args)
            report = torch_atalla.save_loadable(program, path, fallback="error", **options)
            found = torch.utils._pytree.tree_leaves(torch_atalla.load_loadable(path, device="atalla")(*device))
            expected = torch.utils._pytree.tree_leaves(module.to("atalla")(*device))
            module.to("cpu")
        self.assertEqual(len(found), len(expected))
        for a, b in zip(found, expected):
            tolerance = {"rtol": 0, "atol": 0} if bits else {"rtol": 1e-4, "atol": 1e-4}
            self.assertEqual(a.cpu(), b.cpu(), equal_nan=True, **tolerance)
        return report

    @parametrize("name,dtype", PAIRS)
    def test_pointwise(self, name: str, dtype: torch.dtype) -> None:
        torch.manual_seed(0)
        fn, args = CASES[name]
        args = tuple(x.to(dtype) if x.is_floating_point() else x for x in args)
        report = self.check(Fn(fn), args)
        if dtype == torch.float32 and name != "scalars":
            self.assertTrue("fused" in report.kernels or len(report.kernels) == 1, report.kernels)

    def test_pending_negation_and_gaps(self) -> None:
        """An input whose negation is pending, with elements of its storage between its own, which as_strided reads."""

        def negative(device: str) -> torch.Tensor:
            torch.manual_seed(0)
            parts = (torch.randn(3, 4).mT.to(device) for _ in range(2))
            return torch.complex(*parts).conj().imag

        fn = Fn(lambda m, x: (x.as_strided((2, 2), (1, 2), 1) + 1, x * 2, x.mT + 1))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.atl"
            torch_atalla.save_loadable(torch.export.export(fn, (negative("cpu"),)), path)
            found = torch_atalla.load_loadable(path)(negative("atalla"))
        for a, b in zip(found, fn(negative("cpu")), strict=True):
            self.assertEqual(a.cpu(), b)
        self.assertTrue(negative("atalla").is_neg())

    @parametrize("dtype", [torch.float32, torch.bfloat16])
    @parametrize("name", list(MASKS))
    def test_masks_of_attention(self, name: str, dtype: torch.dtype) -> None:
        """Keys and values that no query may look at are infinite or NaN."""
        torch.manual_seed(0)
        q, k, v = (torch.randn(2, 4, 70, 8, dtype=dtype) for _ in range(3))
        k[0, 0, 69], v[0, 1, 69] = torch.nan, torch.inf
        q[1, 1], k[1, 2, 5] = 0, -torch.inf

        def fn(m: Any, *args: torch.Tensor) -> torch.Tensor:
            i = torch.arange(70, device=args[0].device)
            return F.scaled_dot_product_attention(*args, attn_mask=MASKS[name](i[:, None], i[None]))

        self.check(Fn(fn), (q, k, v))

    def test_mask_of_two_layers_is_converted_once(self) -> None:
        """As eager mode converts it for each."""

        def fn(m: Any, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
            return F.scaled_dot_product_attention(F.scaled_dot_product_attention(q, k, v, seen), k, v, seen)

        args = (*(torch.randn(2, 4, 7, 8) for _ in range(3)), torch.rand(2, 1, 7, 7) > 0.5)
        self.assertEqual(self.check(Fn(fn), args).kernels, {"pointwise.where": 1, "attention": 2})

    @parametrize("mode", ["bilinear", "bicubic"])
    def test_resampling_keeps_channels_innermost(self, mode: str) -> None:
        image = torch.randn(2, 3, 5, 6).contiguous(memory_format=torch.channels_last)
        report = self.check(Fn(lambda m, x: F.interpolate(x, (9, 8), mode=mode)), (image,))
        self.assertEqual(len(report.kernels), 1, report.kernels)

    @parametrize("dtype", [torch.float32, torch.float16])
    @parametrize("rows", [2, 130])
    def test_products(self, dtype: torch.dtype, rows: int) -> None:
        """k below and above a block, n that fills no panel of 32, a bias, a residual, a gate."""
        torch.manual_seed(0)

        class Model(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.first, self.second = nn.Linear(70, 1245), nn.Linear(1245, 64, bias=False)

            def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
                h = F.silu(self.first(x))
                return self.second(h * h) * y + 1

        report = self.check(Model().to(dtype), (torch.randn(rows, 70).to(dtype), torch.randn(64).to(dtype)))
        self.assertEqual(report.kernels, {"gemm_packed": 2})

    @parametrize("level", ["none", "fast"])
    def test_levels(self, level: str) -> None:
        self.check(*models.seed_models()["vit_block"], bits=level != "fast", optimize=level)

    @parametrize("size", [9, 40])
    def test_convolutions(self, size: int) -> None:
        torch.manual_seed(0)
        body = nn.Sequential(nn.Conv2d(5, 24, 3, 2, 1), nn.SiLU(), nn.Conv2d(24, 24, 1), nn.BatchNorm2d(24), nn.ReLU())
        for given in (body[3].weight, body[3].bias, body[3].running_mean):
            nn.init.normal_(given)
        nn.init.uniform_(body[3].running_var, 0.01, 9)
        self.check(body, (torch.randn(2, 5, size, size + 1),))
        self.check(body, (torch.randn(2, 5, size, size + 1),), bits=False, optimize="fast")

    @parametrize("stride", [1, 2, 3])
    @parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
    def test_pooled_values(self, dtype: torch.dtype, stride: int) -> None:
        """The indices, which a loadable leaves out, decide between 0 and -0 and between NaNs in eager mode."""
        x = torch.tensor([0.0, -0.0, 1.0, math.nan, -math.inf]).to(dtype)[torch.randint(5, (2, 3, 37, 41))]
        x[:, :2] = x[:, :2].nan_to_num(0.0).clamp_max(0.0)
        for kernel, padding, dilation in ((3, 1, 1), (2, 0, 2), (5, 2, 1)):
            pool = nn.MaxPool2d(kernel, stride, padding, dilation)
            report = self.check(pool, (x,))
            self.assertEqual(report.kernels, {"pool.max": 1})
            exported = torch.export.export(pool, (x,))
            with tempfile.TemporaryDirectory() as folder:
                torch_atalla.save_loadable(exported, Path(folder) / "m.atl")
                found = torch_atalla.load_loadable(Path(folder) / "m.atl")(x.to("atalla")).cpu()
            expected = pool(x.to("atalla")).cpu()
            self.assertEqual(torch.signbit(found), torch.signbit(expected))

    @parametrize("dims", [1, 2, 3])
    @parametrize("kernel,stride", [(3, 1), (3, 2), (1, 1), (1, 2), (7, 3)])
    def test_packed_convolutions(self, dims: int, kernel: int, stride: int) -> None:
        torch.manual_seed(0)
        make = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[dims - 1]
        channels = {1: 700, 2: 90, 3: 31}[dims]  # k in several chunks
        body = nn.Sequential(make(channels, 64, kernel, stride, kernel // 2), nn.ReLU(), make(64, 32, 1, bias=False))
        x = torch.randn(2, channels, *(19, 15, 9)[:dims])
        report = self.check(body, (x,))
        self.assertEqual(report.kernels, {"convolution_packed": 2})

    @parametrize("weights", ["bfloat16", "int8"])
    def test_narrow_weights(self, weights: str) -> None:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 128, bias=False)).eval()
        x = torch.randn(17, 256)
        with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.atl"
            report = torch_atalla.save_loadable(model, path, args=(x,), fallback="error", weights=weights)
            (found,) = [torch_atalla.load_loadable(path, device="atalla")(x.to("atalla")).cpu()]
            expected = model(x)
        self.assertEqual(report.kernels, {"gemm_packed": 2})
        parameters = sum(p.numel() for p in model.parameters())
        self.assertLess(report.weight_bytes, (2.1 if weights == "bfloat16" else 1.2) * parameters)
        error = (found - expected).abs().max() / expected.abs().max()
        self.assertLess(error, 0.02)
        self.assertGreater(error, 1e-5)

    def test_packed_weights_are_replaced_by_name(self) -> None:
        class Both(nn.Module):
            """A weight as it is, and one that is stored transposed."""

            def __init__(self) -> None:
                super().__init__()
                self.linear = nn.Linear(40, 64)
                self.turned = nn.Parameter(torch.randn(64, 96))

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return self.linear(x).relu() @ self.turned

        first, second = Both().eval(), Both().eval()
        x = torch.randn(5, 40)
        with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.atl"
            report = torch_atalla.save_loadable(first, path, args=(x,), fallback="error")
            self.assertEqual(report.kernels, {"gemm_packed": 2})
            program = torch_atalla.load_loadable(path, device="atalla")
            shapes = {name: shape for name, (_, shape) in program.parameters().items()}
            self.assertEqual(shapes, {name: tuple(p.shape) for name, p in first.named_parameters()})
            self.assertEqual(program(x.to("atalla")).cpu(), first(x))
            program.load_state_dict(second.state_dict())
            self.assertEqual(program(x.to("atalla")).cpu(), second(x))
            with self.assertRaisesRegex(ValueError, "expected float32"):
                program.load_state_dict({"turned": torch.zeros(3, 64, 32)})

    def test_narrow_weights_need_packing(self) -> None:
        with self.assertRaisesRegex(ExportError, 'optimize="none" does not make'):
            compile_program(nn.Linear(64, 64), (torch.randn(2, 64),), weights="int8", optimize="none")

    def test_index_beyond_a_packed_table_faults(self) -> None:
        class Tied(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.embedding = nn.Embedding(3199, 16)

            def forward(self, ids: torch.Tensor) -> torch.Tensor:
                return F.linear(self.embedding(ids), self.embedding.weight)

        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.atl"
            report = torch_atalla.save_loadable(Tied().eval(), path, args=(torch.tensor([1, 2]),), fallback="error")
            self.assertIn("index_select_packed", report.kernels)
            program = torch_atalla.load_loadable(path, device="atalla")
            with self.assertRaisesRegex(Exception, "index 3199 is out of bounds"):
                program(torch.tensor([1, 3199], device="atalla"))
                torch.atalla.synchronize()


instantiate_parametrized_tests(TestBits)
