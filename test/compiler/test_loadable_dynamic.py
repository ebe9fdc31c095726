# SPDX-License-Identifier: BSD-3-Clause
"""Sizes that the call determines: at, below and beyond their bounds, against eager mode."""

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.export import Dim
from torch.testing._internal.common_utils import TestCase

import torch_atalla
from torch_atalla.compiler.targets.functional.pipeline import compile_program
from torch_atalla.loadable import LoadedProgram
from torch_atalla.loadable.errors import ExportError

aten = torch.ops.aten


class Fn(nn.Module):
    def __init__(self, fn):
        super().__init__()
        self.fn = fn
        self.weight = nn.Parameter(torch.linspace(-1, 1, 8 * 6).reshape(6, 8))
        self.table = nn.Parameter(torch.linspace(-2, 2, 40).reshape(10, 4))

    def forward(self, *args):
        return self.fn(self, *args)


def save(fn, args, shapes, path: Path, **options) -> tuple[nn.Module, LoadedProgram]:
    module = Fn(fn).eval()
    exported = torch.export.export(module, args, dynamic_shapes=(tuple(shapes),), strict=False)
    torch_atalla.save_loadable(exported, path, **{"fallback": "error", **options})
    return module, torch_atalla.load_loadable(path)


B, T = Dim("b", min=1, max=9), Dim("t", min=3, max=12)
FREE = Dim("n", min=1)

# name -> (function of (module, tensors), shapes with symbols by letter, dtype)
OPS = {
    "pointwise and broadcast": lambda m, x: (torch.sin(x) + x[:, :1]).clamp(min=-0.5) * 2,
    "linear": lambda m, x: nn.functional.linear(x, m.weight),
    "matmul": lambda m, x: torch.matmul(x, x.transpose(1, 2)),
    "softmax": lambda m, x: x.softmax(-1) + x.log_softmax(1),
    "layer norm": lambda m, x: nn.functional.layer_norm(x, (8,)),
    "attention": lambda m, x: nn.functional.scaled_dot_product_attention(x, x, x),
    "heads": lambda m, x: x.view(x.shape[0], x.shape[1], 2, 4).transpose(1, 2).reshape(x.shape[0], 2, -1),
    "reductions": lambda m, x: (x.sum(1), x.mean((0, 2)), x.amax(1), x.var(2), x.argmax(1)),
    "views": lambda m, x: (x[:, 1:], x.permute(2, 0, 1), x.flatten(0, 1), x.unsqueeze(1), x.expand(2, *x.shape)),
    "cat": lambda m, x: (torch.cat([x, x], 1), torch.cat([x[:, 1:], x], 1), torch.stack([x, x])),
    "sizes as numbers": lambda m, x: (x * x.shape[1] + x.shape[0], x.new_full((x.shape[1],), 3.0)),
    "ranges": lambda m, x: (torch.arange(x.shape[1]), torch.arange(x.shape[1])[:, None] <= torch.arange(x.shape[1])),
    "pad and cumsum": lambda m, x: nn.functional.pad(x, (1, 1, 2, 0)).cumsum(1),
    "causal mask": lambda m, x: x + torch.ones(x.shape[1], x.shape[1]).tril().sum(1)[None, :, None],
    "chunk": lambda m, x: [part * 2 for part in x.chunk(2, 2)],
}


class TestDynamicSizes(TestCase):
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path):
        self.path = tmp_path / "model.atl"

    def compare(self, module, program, *args):
        with torch.no_grad():
            expected = module(*args)
        found = program(*(arg.to("atalla") for arg in args))
        for a, b in zip(torch.utils._pytree.tree_leaves(found), torch.utils._pytree.tree_leaves(expected), strict=True):
            self.assertEqual(a.cpu(), b, rtol=1e-4, atol=1e-5)

    def check_op(self, name, shapes, sizes):
        module, program = save(OPS[name], (torch.randn(3, 5, 8),), (shapes,), self.path)
        for b, t in sizes:
            self.compare(module, program, torch.randn(b, t, 8))

    def test_every_op_at_its_bounds(self):
        for name in OPS:
            with self.subTest(name):
                self.check_op(name, {0: B, 1: T}, [(1, 3), (9, 12), (4, 7), (9, 3), (4, 7)])

    def test_every_op_without_an_upper_bound(self):
        for name in OPS:
            with self.subTest(name):
                free = {0: FREE, 1: Dim("m", min=3)}
                self.check_op(name, free, [(1, 3), (3, 5), (20, 33), (2, 64), (3, 5)])

    def test_embedding(self):
        dims = ({0: B, 1: T},)
        module, program = save(lambda m, i: m.table[i] * 2, (torch.randint(0, 10, (3, 5)),), dims, self.path)
        for sizes in ((1, 3), (9, 12), (2, 4)):
            self.compare(module, program, torch.randint(0, 10, sizes))

    def test_beyond_the_bounds(self):
        _, program = save(OPS["linear"], (torch.randn(3, 5, 8),), ({0: B, 1: T},), self.path)
        for sizes, text in (
            ((10, 5, 8), "input 0 .*: dimension 0 is 10, expected 1 to 9"),
            ((0, 5, 8), "dimension 0 is 0, expected 1 to 9"),
            ((3, 13, 8), "dimension 1 is 13, expected 3 to 12"),
            ((3, 2, 8), "dimension 1 is 2, expected 3 to 12"),
            ((3, 5, 7), r"expected shape \[1 to 9, 3 to 12, 8\], found \[3, 5, 7\]"),
            ((5, 8), r"found \[5, 8\]"),
        ):
            with self.assertRaisesRegex(ValueError, text):
                program(torch.randn(sizes, device="atalla"))
        self.assertEqual(program(torch.randn(9, 12, 8, device="atalla")).shape, (9, 12, 6))

    def test_equal_sizes_must_be_equal(self):
        dims = ({0: B}, {0: B})
        module, program = save(lambda m, x, y: x + y, (torch.randn(3, 2), torch.randn(3, 2)), dims, self.path)
        self.compare(module, program, torch.randn(7, 2), torch.randn(7, 2))
        with self.assertRaisesRegex(ValueError, r"input 1 .* has shape \[6, 2\], expected \[7, 2\]: dimension 0 is 6"):
            program(torch.randn(7, 2, device="atalla"), torch.randn(6, 2, device="atalla"))

    def test_one_symbol_in_several_dimensions(self):
        """Products and quotients of a symbol with itself are its powers."""
        for fn in (
            lambda m, x: nn.functional.layer_norm(x, x.shape[-2:]),
            lambda m, x: (x.reshape(2, -1) + 1).view(2, x.shape[1], -1) * 2,
            lambda m, x: torch.bmm(x, x).flatten().view(x.shape[1], -1).relu(),
            lambda m, x: nn.functional.linear(x[0], x[1]),
            lambda m, x: nn.functional.layer_norm(x[:, ::2, ::2], x[:, ::2, ::2].shape[-2:]),
        ):
            module, program = save(fn, (torch.randn(2, 5, 5),), ({1: T, 2: T},), self.path)
            for size in (3, 5, 12):
                self.compare(module, program, torch.randn(2, size, size))

    def test_sizes_that_bound_each_other(self):
        """The rows of `index` are at most those of `x`, of which there are at most ten: both maxima belong together."""

        def forward(m, x, index):
            first, second = x.scatter(1, index, 2.0).split(5, 0)
            return first, second

        shapes = [{0: Dim.AUTO(min=2, max=16)}, {0: Dim.AUTO(min=2, max=16)}]
        args = torch.randn(7, 4), torch.randint(0, 4, (7, 1))
        _, loaded = save(forward, args, shapes, self.path, golden=False)
        self.assertEqual([spec.dynamic[0] for spec in loaded.inputs], ["5 to 10", "2 to 10"])

    def test_multiples(self):
        half = Dim("half", min=2, max=8)
        dims = ({1: 2 * half},)
        module, program = save(lambda m, x: x.view(x.shape[0], -1, 2).sum(2), (torch.randn(3, 8),), dims, self.path)
        for size in (4, 16, 10):
            self.compare(module, program, torch.randn(3, size))
        for size, text in ((7, "dimension 1 is 7, expected a multiple of 2 from 4 to 16"), (18, "is 18"), (2, "is 2")):
            with self.assertRaisesRegex(ValueError, text):
                program(torch.randn(3, size, device="atalla"))

    def test_arena_is_planned_at_the_bound(self):
        module = Fn(lambda m, x: torch.sin(nn.functional.linear(x, m.weight)).softmax(-1).sum(1))
        exported = torch.export.export(module, (torch.randn(3, 5, 8),), dynamic_shapes=((({0: B, 1: T}),),))
        compiled = compile_program(exported, fallback="error")
        largest = 9 * 12 * 6 * 4
        self.assertTrue(largest <= compiled.plan.arena_bytes <= 3 * largest)
        data = self._saved(exported)
        self.assertNotIn("storage_bytes of arena", str(data["dynamic"]))
        arena = {k for k, storage in enumerate(data["storages"]) if storage["space"] == "arena"}
        changing = {r["index"] for r in data["dynamic"] if r["kind"] == "storage_bytes"}
        self.assertEqual(arena & changing, set())
        unbounded = torch.export.export(module, (torch.randn(3, 5, 8),), dynamic_shapes=((({0: FREE}),),))
        data = self._saved(unbounded)
        arena = {k for k, storage in enumerate(data["storages"]) if storage["space"] == "arena" and storage["bytes"]}
        changing = {r["index"] for r in data["dynamic"] if r["kind"] == "storage_bytes"}
        self.assertTrue(arena and arena <= changing)

    def _saved(self, exported):
        from torch_atalla.loadable.description import describe

        torch_atalla.save_loadable(exported, self.path, fallback="error")
        return describe(str(self.path))

    def test_other_strides_are_ordered(self):
        module, program = save(OPS["linear"], (torch.randn(3, 5, 8),), ({0: B, 1: T},), self.path)
        x = torch.randn(8, 7, 4).permute(2, 1, 0)
        self.compare(module, program, x)

    def test_output_shapes_follow(self):
        _, program = save(OPS["cat"], (torch.randn(3, 5, 8),), ({0: B, 1: T},), self.path)
        outputs = program(torch.randn(2, 4, 8, device="atalla"))
        self.assertEqual([tuple(y.shape) for y in outputs], [(2, 8, 8), (2, 7, 8), (2, 2, 4, 8)])
        self.assertIn("1 to 9, 3 to 12, 8", program.signature())

    def test_strides_of_fixed_sizes_follow(self):
        module, program = save(lambda m, x: x[:, :1], (torch.randn(3, 8),), ({1: FREE},), self.path)
        for columns in (8, 3, 1):
            x = torch.randn(3, columns)
            self.assertEqual(program(x.to("atalla")).stride(), module(x).stride())

    def test_temporaries_of_no_bytes(self):
        """Their offsets in the file are those of other sizes, and lie beyond the arena of these."""
        function = lambda m, x: ((a := x.cumsum(0)) @ (b := x.flip(0)).mT, a.sum(0) + b.sum(0))  # noqa: E731
        module, program = save(function, (torch.randn(80, 4),), ({0: Dim("n", min=0)},), self.path)
        for n in (80, 0, 3, 0):
            self.compare(module, program, torch.randn(n, 4))

    def test_sizes_that_depend_on_data_are_refused(self):
        module = Fn(lambda m, x: x[x > 0].kthvalue(1).values)
        exported = torch.export.export(module, (torch.randn(3, 5),), dynamic_shapes=((({0: B}),),))
        with self.assertRaisesRegex(ExportError, "no rule keeps aten.kthvalue.default"):
            torch_atalla.save_loadable(exported, self.path, fallback="error")
