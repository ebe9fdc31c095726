# SPDX-License-Identifier: BSD-3-Clause
"""Triton kernels as Atalla code on the ISA engine, against the CPU, the functional engine and the built-in kernels."""

import importlib.util
import tempfile
from pathlib import Path

import pytest
import torch
from isa_kernels import CodegenTestCase, bf16
from torch.testing._internal.common_utils import instantiate_parametrized_tests, parametrize, run_tests

import torch_atalla
from torch_atalla.compiler.targets.chip.network import NoProgramError

triton = pytest.importorskip("triton", reason="the extra torch_atalla[triton] is not installed")

import kernels  # noqa: E402
import random_kernels  # noqa: E402
import triton.language as tl  # noqa: E402

DEVICE, BF16 = "atalla", torch.bfloat16


def grid(n, block):
    return (triton.cdiv(n, block),)


def empty(*sizes):
    """Of NaN, so that a test sees what no program wrote."""
    return torch.full(sizes, float("nan"), dtype=BF16, device=DEVICE)


@triton.jit
def gather_rows(x, index, out, count, rows, width, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    i, j = tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_N)
    inside = (i < count)[:, None] & (j < width)[None, :]
    row = tl.load(index + i, mask=i < count, other=0)
    values = tl.load(x + row[:, None] * width + j[None, :], mask=inside, other=0.0)
    tl.store(out + i[:, None] * width + (width - 1 - j)[None, :], values * 2, mask=inside)


@triton.jit
def columns(x, out, stride, rows, BLOCK: tl.constexpr):
    """Sums of columns and of rows of a lower triangle."""
    i, j = tl.arange(0, BLOCK), tl.arange(0, BLOCK)
    first = tl.load(x + i * stride, mask=i < rows, other=0.0)
    whole = tl.load(x + i[:, None] * stride + j[None, :], mask=(i < rows)[:, None] & (j < rows)[None, :], other=1.0)
    lower = tl.where(i[:, None] >= j[None, :], whole, 0.0)
    total = tl.sum(lower, axis=1) + tl.max(tl.trans(whole), axis=0) + first
    tl.store(out + i, total, mask=i < rows)
    tl.store(out + rows + i * 2, tl.sum(lower * total[:, None], axis=0), mask=i < rows)


@triton.jit
def scalars(x, out, counts, n):
    """Numbers and loops of the scalar core."""
    total = 0.0
    first = tl.load(counts)
    i = first
    while i < n:
        value = tl.load(x + i)
        if value > 0:
            total += tl.exp(value.to(tl.float32))
        else:
            total -= 1.0
        i += 1 + i % 3
    tl.store(out, total)
    tl.store(counts + 1, i)
    tl.atomic_add(counts + 2, i // 2)


@triton.jit
def functions(x, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    values = tl.load(x + i, mask=i < n, other=1.0).to(tl.float32)
    tl.store(out + i, tl.log(values) + tl.cos(values) * tl.floor(values) + tl.sqrt(values), mask=i < n)


@triton.jit
def repeated_rows(x, out, stride, rows, n, HIGH: tl.constexpr, BLOCK: tl.constexpr):
    i, j = tl.arange(0, HIGH), tl.arange(0, BLOCK)
    inside = (i < rows)[:, None] & (j < n)[None, :]
    first = tl.load(x + j[None, :] + (i * 0)[:, None], mask=inside, other=-1.0)
    again = tl.load(x + i[:, None] * stride + j[None, :], mask=inside, other=-1.0)
    tl.store(out + i[:, None] * n + j[None, :], first, mask=inside)
    tl.store(out + (rows + i)[:, None] * n + j[None, :], again, mask=inside)


@triton.jit
def running_sums(x, out, rows, n, BLOCK: tl.constexpr):
    """out may be x: then each row reads what the pass before it wrote."""
    j = tl.arange(0, BLOCK)
    for row in range(1, rows):
        before = tl.load(x + (row - 1) * n + j, mask=j < n)
        tl.store(out + row * n + j, before + tl.load(out + row * n + j, mask=j < n), mask=j < n)


class EnginesTestCase(CodegenTestCase):
    def run_both(self, launch, *outputs):
        """The results of the ISA engine and of the functional one, of a launch that writes to `outputs`."""
        first = [out.clone() for out in outputs]
        with torch_atalla.chip.engine("isa") as self.mode:
            launch(*outputs)
        self.assertGreater(self.mode.stats.cycles, 0)
        launch(*first)
        return [out.cpu() for out in outputs], [out.cpu() for out in first]


class TestTutorials(EnginesTestCase):
    @parametrize("n", [1, 31, 32, 1000, 1024, 1025, 5000])
    def test_vector_add(self, n):
        x, y = bf16(n), bf16(n, seed=1)
        a, b = x.to(DEVICE), y.to(DEVICE)
        whole = empty(n + 40)  # what is behind stays
        (found,), (functional,) = self.run_both(
            lambda out: kernels.vector_add[grid(n, 1024)](a, b, out, n, BLOCK=1024), whole
        )
        self.assertEqual(found[:n], x + y, atol=0, rtol=0)
        self.assertEqual(found, functional, atol=0, rtol=0)

    @parametrize("shape", [(1, 2), (5, 32), (33, 1000), (40, 70)])
    def test_softmax(self, shape):
        x = bf16(*shape, scale=3.0)
        a, block = x.to(DEVICE), triton.next_power_of_2(shape[1])
        (found,), (functional,) = self.run_both(
            lambda out: kernels.softmax_rows[(3,)](out, a, shape[1], shape[1], *shape, BLOCK=block, STAGES=2),
            empty(*shape),
        )
        self.check(found, x.double().softmax(1), functional)

    @parametrize("sizes", [(64, 64, 32), (130, 70, 100), (20, 20, 20), (1, 200, 33)])
    @parametrize("transposed", [False, True])
    def test_matmul(self, sizes, transposed):
        """Borders, where rows and columns go around; a second matrix whose columns lie one after the other."""
        m, n, k = sizes
        a, b = bf16(m, k), bf16(k, n, seed=1)
        x = a.to(DEVICE)
        y = b.t().contiguous().to(DEVICE).t() if transposed else b.to(DEVICE)
        activation = "leaky_relu" if transposed else ""
        small, large = (32, 64), (64, 32)
        blocks = dict(zip(("BLOCK_M", "BLOCK_K"), large if m > 32 else small)) | {"BLOCK_N": 64}
        tiles = triton.cdiv(m, blocks["BLOCK_M"]) * triton.cdiv(n, blocks["BLOCK_N"])
        (found,), (functional,) = self.run_both(
            lambda c: kernels.matmul[(tiles,)](
                x, y, c, m, n, k, *x.stride(), *y.stride(), *c.stride(), **blocks, GROUP_M=4, ACTIVATION=activation
            ),
            empty(m, n),
        )
        exact = a.double() @ b.double()
        self.check(found, torch.nn.functional.leaky_relu(exact) if activation else exact, functional)

    def test_matmul_keeps_infinities_apart(self):
        """Columns of the second matrix are transposed through the array, where 0 times an infinity is NaN."""
        a, b = bf16(32, 32), bf16(32, 64, seed=1)
        b[3, 5], b[7, 40] = float("inf"), float("nan")
        x, y = a.to(DEVICE), b.to(DEVICE)
        (found,), _ = self.run_both(
            lambda c: kernels.matmul[(1,)](
                x, y, c, 32, 64, 32, 32, 1, 64, 1, 64, 1, BLOCK_M=32, BLOCK_N=64, BLOCK_K=32, GROUP_M=1, ACTIVATION=""
            ),
            empty(32, 64),
        )
        exact = (a.double() @ b.double()).to(BF16)
        self.assertEqual(found.isfinite(), exact.isfinite())
        self.assertEqual(found[:, 5], exact[:, 5])
        self.check(found[:, :5], exact[:, :5])

    @parametrize("n", [100, 1500])
    def test_dropout(self, n):
        """The same numbers are drawn by both engines."""
        x = bf16(n)
        a = x.to(DEVICE)
        (found,), (functional,) = self.run_both(
            lambda out: kernels.seeded_dropout[grid(n, 1024)](a, out, n, 0.25, 123, BLOCK=1024), empty(n)
        )
        self.assertEqual(found != 0, functional != 0)
        self.check(found, functional.double(), functional)

    @parametrize("shape", [(3, 60), (20, 1000)])
    def test_layer_norm(self, shape):
        rows, n = shape
        groups, block = min(4, rows), max(32, triton.next_power_of_2(n))
        x, w, b, grad = bf16(rows, n), bf16(n, seed=1), bf16(n, seed=2), bf16(rows, n, seed=3)
        wide = [t.double().requires_grad_() for t in (x, w, b)]
        expected = torch.nn.functional.layer_norm(wide[0], (n,), *wide[1:], 1e-5)
        expected.backward(grad.double())
        a, weight, bias, g = (t.to(DEVICE) for t in (x, w, b, grad))
        found, functional = self.run_both(
            lambda out, mean, rstd: kernels.layer_norm[(rows,)](
                a, out, weight, bias, mean, rstd, n, n, 1e-5, BLOCK=256
            ),
            empty(rows, n), empty(rows), empty(rows),
        )  # fmt: skip
        self.check(found[0], expected.detach(), functional[0])
        self.check(found[1], x.double().mean(1), functional[1])
        mean, rstd = (t.to(DEVICE) for t in found[1:])
        locks = torch.zeros(2 * groups, dtype=torch.int32, device=DEVICE)
        found, functional = self.run_both(
            lambda gx, gw, gb, locks: kernels.layer_norm_backward[(rows,)](
                gx, g, gw, gb, a, weight, mean, rstd, locks, n, n, GROUPS=groups, BLOCK=block
            ),
            empty(rows, n), empty(groups, n), empty(groups, n), locks,
        )  # fmt: skip
        self.check(found[0], wide[0].grad, functional[0])
        sums = []
        for parts in found[1:3]:
            whole = parts.to(DEVICE)
            (total,), _ = self.run_both(
                lambda out, parts=whole: kernels.sum_groups[grid(n, 128)](
                    parts, out, groups, n, BLOCK_M=32, BLOCK_N=128
                ),
                empty(n),
            )
            sums.append(total)
        self.check(sums[0], wide[1].grad, cosine=0.999, error=0.03)
        self.check(sums[1], wide[2].grad, cosine=0.999, error=0.03)

    @parametrize("causal", [False, True])
    def test_attention(self, causal):
        heads, length, width = 2, 64, 64
        q, k, v = (bf16(heads, length, width, seed=seed) for seed in range(3))
        x, y, z = (t.to(DEVICE) for t in (q, k, v))
        exact = torch.nn.functional.scaled_dot_product_attention(*(t.double() for t in (q, k, v)), is_causal=causal)
        strides = (length * width, width, length)
        found, functional = self.run_both(
            lambda out, lse: kernels.attention[(length // 32, heads)](
                x, y, z, out, lse, width**-0.5, *strides, BLOCK_M=32, BLOCK_N=32, WIDTH=width, CAUSAL=causal
            ),
            empty(heads, length, width),
            empty(heads, length),
        )
        self.check(found[0], exact, functional[0])
        self.check(found[1], functional[1].double())


class TestIrregular(EnginesTestCase):
    def test_functions_lane_by_lane(self):
        x = bf16(40).abs() + 0.1
        a = x.to(DEVICE)
        (found,), (functional,) = self.run_both(lambda out: functions[(1,)](a, out, 40, BLOCK=64), empty(40))
        self.check(found, functional.double())

    def test_masks_of_other_dimensions(self):
        """A mask along a dimension in which addresses do not move; rows at a distance that a launch gives as 0."""
        x = bf16(40)
        a = x.to(DEVICE)
        (found,), (functional,) = self.run_both(
            lambda out: repeated_rows[(1,)](a, out, 0, 5, 40, HIGH=8, BLOCK=64), empty(10, 40)
        )
        self.assertEqual(found, functional, atol=0, rtol=0)
        self.assertEqual(found[:5], x.expand(5, 40))

    @parametrize("in_place", [False, True])
    def test_loads_that_go_ahead(self, in_place):
        """A pass brings in what the next one reads, unless the launch writes there."""
        x = torch.randint(-3, 4, (6, 40)).to(BF16)
        if in_place:
            (found,), (functional,) = self.run_both(
                lambda out: running_sums[(1,)](out, out, 6, 40, BLOCK=64), x.to(DEVICE)
            )
            self.assertEqual(found, x.float().cumsum(0).to(BF16))
        else:
            a = x.to(DEVICE)
            (found,), (functional,) = self.run_both(
                lambda out: running_sums[(1,)](a, out, 6, 40, BLOCK=64), torch.ones_like(a)
            )
            self.assertEqual(found[1:], x[:-1] + 1)
        self.assertEqual(found, functional)

    def test_gather_and_scatter(self):
        x = bf16(9, 40)
        index = torch.tensor([3, 0, 8, 8, 1], dtype=torch.int32)
        a, i = x.to(DEVICE), index.to(DEVICE)
        (found,), (functional,) = self.run_both(
            lambda out: gather_rows[(1,)](a, i, out, 5, 9, 40, BLOCK_M=8, BLOCK_N=64), empty(5, 40)
        )
        self.assertEqual(found, (x[index.long()] * 2).flip(1), atol=0, rtol=0)
        self.assertEqual(found, functional, atol=0, rtol=0)

    @parametrize("rows", [5, 32, 64])
    def test_columns_and_triangles(self, rows):
        x = bf16(rows, 70)
        a = x.to(DEVICE)
        (found,), (functional,) = self.run_both(
            lambda out: columns[(1,)](a, out, 70, rows, BLOCK=64), torch.zeros(3 * rows, dtype=BF16, device=DEVICE)
        )
        self.check(found, functional.double())

    def test_scalar_core(self):
        x = bf16(50)
        a = x.to(DEVICE)
        counts = torch.tensor([2, 0, 5], dtype=torch.int32, device=DEVICE)
        found, functional = self.run_both(lambda out, counts: scalars[(1,)](a, out, counts, 40), empty(1), counts)
        self.check(found[0], functional[0].double())
        self.assertEqual(found[1], functional[1])


class TestRandomPrograms(EnginesTestCase):
    @parametrize("seed", range(16))
    def test_engines_agree(self, seed):
        """Values that are close to a comparison may differ: the chip rounds to bfloat16 after each operation."""
        made = random_kernels.Kernel(seed)
        kernel = compiled(made.source, f"kernel{seed}")
        x, y = bf16(made.rows, made.columns), bf16(made.columns + made.rows, seed=1)
        a, b = x.to(DEVICE), y.to(DEVICE)
        (found,), (functional,) = self.run_both(
            lambda out: kernel[made.grid](a, b, out, made.rows, made.columns, 0.75), empty(made.rows, made.columns)
        )
        self.assertFalse(found.isnan().any())
        scale = max(functional.abs().max().item(), 1.0)  # of intermediate values
        wrong = ((found.float() - functional.float()).abs() > 0.03 * scale).sum().item()
        self.assertLessEqual(wrong, found.numel() // 100, made.source)


FOLDER = tempfile.TemporaryDirectory()


def compiled(source, name):
    """The kernel of a source, of which Triton needs a file."""
    path = Path(FOLDER.name) / f"{name}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.kernel


class TestReporting(EnginesTestCase):
    def code(self, body, *arguments, **options):
        """Atalla code of a kernel with this body."""
        source = "import triton\nimport triton.language as tl\n\n\n@triton.jit\ndef kernel(x, out, n):\n    " + body
        kernel = compiled(source.replace("\n", "\n").replace("; ", "\n    ") + "\n", f"body{abs(hash(body))}")
        given = arguments or (empty(64), empty(64), 64)
        return kernel, kernel.warmup(*given, grid=(1,), code=True, **options)

    @parametrize("case", [
        ("i = tl.arange(0, 64); tl.store(out + i, tl.sort(tl.load(x + i)))", "Atalla code has no such operation|reduc"),
        ("i = tl.arange(0, 64); tl.store(out + i, tl.cumsum(tl.load(x + i).to(tl.float32), 0))", "no such operation"),
        ("i = tl.arange(0, 64); tl.store(out, tl.argmax(tl.load(x + i), 0))", "a reduction by"),
        ("i = tl.arange(0, 64); tl.store(out + i, tl.load(x + i).to(tl.float16))", "expected bf16 or f32"),
        ("i = tl.arange(0, 64); tl.store(out + i, tl.load(x + i).to(tl.int32))", "vector unit has no such"),
        ("i = tl.arange(0, 64); tl.atomic_add(out + i, tl.load(x + i).to(tl.float32))", "an atomic update"),
    ])  # fmt: skip
    def test_what_cannot_be_expressed(self, case):
        body, reason = case
        with self.assertRaisesRegex(triton.CompilationError, reason) as raised:
            self.code(body)
        self.assertRegex(str(raised.exception), r"body\d+\.py:8:\d+: ")

    def test_dtypes(self):
        x = torch.rand(100, device=DEVICE)
        with self.assertRaisesRegex(triton.CompilationError, "a tile of f32 in memory; expected bf16"):
            kernels.vector_add.warmup(x, x, x, 100, grid=(1,), BLOCK=128, code=True)
        with (
            torch_atalla.chip.engine("isa"),
            self.assertRaisesRegex(NoProgramError, r"kernels\.py:13:\d+: .*expected bf16"),
        ):
            kernels.vector_add[(1,)](x, x, x, 100, BLOCK=128)
        out = torch.empty_like(x)
        with torch_atalla.chip.engine("isa", missing="functional") as mode:
            kernels.vector_add[(1,)](x, x, out, 100, BLOCK=128)
        self.assertEqual(mode.ops, {})
        self.assertEqual(out, x + x)

    def test_early_return(self):
        with self.assertRaisesRegex(triton.CompilationError, "an early return"):
            self.code("if n > 5:; return; tl.store(out, 1.0)".replace(":; ", ":;     "))

    def test_text(self):
        compiled = kernels.vector_add.warmup(empty(64), empty(64), empty(64), 64, grid=(1,), BLOCK=128, code=True)
        text = compiled.asm["atalla"]
        self.assertRegex(text, r"(?m)^vector_add:$")
        self.assertRegex(text, r"scpad\.ld .*# [0-9A-F]{8}, line 13")
        self.assertEqual(len(torch_atalla.isa.assemble(text)), text.count("# 0"))
        self.assertNotIn("atalla", kernels.vector_add.warmup(*[empty(64)] * 3, 64, grid=(1,), BLOCK=128).asm)

    def test_cycles_by_line(self):
        x, out = empty(300), empty(300)
        with torch_atalla.chip.engine("isa") as mode:
            kernels.vector_add[(3,)](x, x, out, 300, BLOCK=128)
            whole = mode.stats
            mode.lines = {}
            kernels.vector_add[(3,)](x, x, out, 300, BLOCK=128)
        self.assertEqual(mode.ops, {"vector_add": 2})
        self.assertEqual(mode.stats.cycles, whole.cycles)
        self.assertEqual(sum(packets for packets, _ in mode.lines.values()), whole.packets)
        self.assertEqual(sum(cycles for _, cycles in mode.lines.values()), whole.cycles)
        self.assertEqual(max(mode.lines, key=mode.lines.get), 13)


for case in (TestTutorials, TestIrregular, TestRandomPrograms, TestReporting):
    instantiate_parametrized_tests(case)

if __name__ == "__main__":
    run_tests()
