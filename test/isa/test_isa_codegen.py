# SPDX-License-Identifier: BSD-3-Clause
"""Generated Atalla code against the functional engine in bfloat16, and against float64, over sizes and strides."""

from __future__ import annotations

import warnings
from math import inf, sqrt

import torch
import torch.nn.functional as F
from isa_kernels import BF16, CodegenTestCase, bf16, run_launch
from torch.testing._internal.common_utils import instantiate_parametrized_tests, parametrize

from torch_atalla import isa

warnings.filterwarnings("ignore", category=FutureWarning)

SIZES = (1, 31, 32, 33, 63, 64, 65, 97)
ACTIVATIONS = {
    "none": lambda x: x,
    "relu": torch.relu,
    "gelu_erf": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
}


class TestMatrixProducts(CodegenTestCase):
    def product(self, m, n, k, layout, bias=False, activation="none", batch=1, alpha=1.0):
        a, w = bf16(batch, m, k), bf16(batch, n, k, seed=1)
        b = w.transpose(1, 2) if layout != "columns" else w.transpose(1, 2).contiguous()
        c = bf16(n, seed=2) if bias else None
        wide = None if c is None else c.expand(batch, m, n)
        out = torch.empty(batch, m, n, dtype=BF16)
        constants = (1, 2) if layout == "packed" else ()
        run = run_launch(
            "gemm", out, [a, b, wide], constants=constants, alpha=alpha, beta=int(bias), activation=activation
        )
        exact = alpha * (a.double() @ b.double())
        exact = exact if c is None else exact + c.double()
        functional = alpha * (a.to("atalla") @ b.to("atalla"))
        functional = functional if c is None else functional + c.to("atalla")
        apply = ACTIVATIONS[activation]
        self.check(run.outputs[0], apply(exact), apply(functional))

    @parametrize("layout", ["packed", "rows", "columns"])
    def test_sizes(self, layout):
        for i, size in enumerate(SIZES):
            other = SIZES[(i + 3) % len(SIZES)]
            self.product(size, other, SIZES[(i + 5) % len(SIZES)], layout)

    def test_bias_and_activation(self):
        for activation in ACTIVATIONS:
            self.product(33, 70, 40, "packed", bias=True, activation=activation)

    def test_batch_and_scale(self):
        self.product(40, 33, 65, "columns", batch=3, alpha=0.5)
        self.product(33, 40, 31, "rows", batch=2)

    def test_residual(self):
        """A whole matrix that is added to the product: of one tile, partial ones, several blocks, panels, a batch."""
        for m, n, k, batch in (
            (32, 32, 32, 1),
            (33, 70, 40, 1),
            (450, 300, 160, 1),
            (40, 300, 160, 1),
            (40, 33, 65, 3),
        ):
            a, b = bf16(batch, m, k), bf16(batch, k, n, seed=1)
            c = bf16(batch, m, 2 * n, seed=2)[:, :, :n] if m == 33 else bf16(batch, m, n, seed=2)
            for activation, alpha, beta in (("none", 1.0, 1.0), ("relu", 0.5, 1.0), ("gelu_tanh", 1.0, 2.0)):
                out = torch.empty_strided(c.shape, c.stride(), dtype=BF16)
                constants = (1,) if batch == 1 else ()
                run = run_launch(
                    "gemm", out, [a, b, c], constants=constants, alpha=alpha, beta=beta, activation=activation
                )
                exact = alpha * (a.double() @ b.double()) + beta * c.double()
                self.check(run.outputs[0], ACTIVATIONS[activation](exact))

    def test_blocks_and_panels(self):
        self.product(200, 96, 160, "columns")  # more rows than fit the registers
        self.product(1, 90, 4000, "packed", bias=True)  # weights in single panels
        self.product(70, 1500, 640, "rows")  # weights in two buffers
        self.product(40, 300, 160, "packed", bias=True)  # a tile of the next panel a step of k
        self.product(200, 300, 160, "packed", bias=True)  # a piece of it a block, all of A on chip
        self.product(400, 100, 2600, "packed")  # A anew for every panel

    def test_strided_operands(self):
        whole = bf16(40, 200)
        a = whole[None, :, 17:82]
        w = bf16(65, 50, seed=3)
        run = run_launch("gemm", torch.empty(1, 40, 50, dtype=BF16), [a, w[None]], alpha=1, beta=0)
        self.check(run.outputs[0], a.double() @ w.double())
        turned = bf16(65, 40, seed=4).t()[None]  # k is not innermost
        for c, activation in ((None, "none"), (bf16(1, 1, 50).expand(1, 40, 50), "relu"), (bf16(1, 40, 50), "none")):
            columns = torch.empty(1, 50, 40, dtype=BF16).mT  # a result whose rows are not contiguous
            beta = int(c is not None)
            run = run_launch("gemm", columns, [a, w[None], c], alpha=1, beta=beta, activation=activation, timing=True)
            exact = a.double() @ w.double() + (0 if c is None else c.double())
            self.check(run.outputs[0], exact.relu() if activation == "relu" else exact)
            self.assertLess(run.stats.cycles, 12_000)  # on the array
        run = run_launch("gemm", torch.empty(1, 40, 50, dtype=BF16), [turned, w[None]], alpha=1, beta=0)
        self.check(run.outputs[0], turned.double() @ w.double())

    def test_packets_of_a_large_product(self):
        """At most 48 packets for a product of 32 x 32 x 32, with B as it lies in memory."""
        a, b = bf16(1, 512, 512), bf16(1, 512, 512, seed=1)
        run = run_launch("gemm", torch.empty(1, 512, 512, dtype=BF16), [a, b], alpha=1, beta=0)
        self.check(run.outputs[0], a.double() @ b.double())
        self.assertLessEqual(run.stats.packets / 16**3, 48)


class TestPointwise(CodegenTestCase):
    UNARY = {
        "relu": torch.relu, "sigmoid": torch.sigmoid, "tanh": torch.tanh, "silu": F.silu, "gelu_none": F.gelu,
        "neg": torch.neg, "abs": torch.abs, "exp": torch.exp,
    }  # fmt: skip

    @parametrize("name", sorted(UNARY))
    def test_unary(self, name):
        for size in (1, 33, 1025, 3000):
            x = bf16(size, scale=2.0)
            run = run_launch(f"pointwise.{name}", torch.empty_like(x), [x])
            self.check(run.outputs[0], self.UNARY[name](x.double()), self.UNARY[name](x.to("atalla")))

    def test_leaky_relu(self):
        x = bf16(50, 70)
        run = run_launch("pointwise.leaky_relu", torch.empty_like(x), [x], negative_slope=0.1)
        self.check(run.outputs[0], F.leaky_relu(x.double(), 0.1), F.leaky_relu(x.to("atalla"), 0.1))

    @parametrize("name", ["add", "sub", "mul", "maximum", "minimum"])
    def test_broadcast(self, name):
        op = getattr(torch, name)
        x = bf16(3, 40, 70)
        for sizes in ((3, 40, 70), (40, 70), (70,), (3, 1, 70), (3, 40, 1), (1,)):
            y = bf16(*sizes, seed=5)
            scalars = {"alpha": 1} if name in ("add", "sub") else {}
            run = run_launch(f"pointwise.{name}", torch.empty_like(x), [x, y.expand(x.shape)], **scalars)
            self.check(run.outputs[0], op(x.double(), y.double()), op(x.to("atalla"), y.to("atalla")))

    def test_operands_in_other_orders(self):
        """Operands whose elements are not neighbours where the result's are."""
        x, y = bf16(40, 70), bf16(70, 40, seed=1).t()
        run = run_launch("pointwise.add", torch.empty(40, 70, dtype=BF16), [x, y], alpha=1)
        self.check(run.outputs[0], x.double() + y.double())
        image, bias = bf16(2, 33, 5, 9).contiguous(memory_format=torch.channels_last), bf16(9, 5, seed=2).t()
        out = torch.empty(2, 33, 5, 9, dtype=BF16)
        run = run_launch("pointwise.mul", out, [image, bias.expand(2, 33, 5, 9)])
        self.check(run.outputs[0], image.double() * bias.double())

    def test_division_and_roots(self):
        x, y = bf16(5, 40), bf16(5, 40, seed=1).abs() + 0.5
        for divisor in (y, y[:, :1].expand(5, 40), y[0, 0].expand(5, 40)):
            run = run_launch("pointwise.div", torch.empty_like(x), [x, divisor])
            self.check(run.outputs[0], x.double() / divisor.double())
        for name in ("sqrt", "rsqrt", "reciprocal"):
            run = run_launch(f"pointwise.{name}", torch.empty_like(y), [y])
            self.check(run.outputs[0], getattr(torch, name)(y.double()))

    def test_strides(self):
        x = bf16(70, 90)[3:60, 10:83]
        out = torch.empty(60, 100, dtype=BF16)[:57, :73]
        run = run_launch("pointwise.mul", out, [x, 3.0])
        self.check(run.outputs[0], x.double() * 3)

    def test_fill(self):
        run = run_launch("fill", torch.empty(33, 40, dtype=BF16), [2.5])
        self.assertEqual(run.outputs[0], torch.full((33, 40), 2.5, dtype=BF16))


class TestRows(CodegenTestCase):
    SHAPES = ((1, 1), (31, 33), (33, 31), (5, 64), (65, 65), (32, 32), (40, 384), (3, 1000))

    def test_softmax(self):
        for m, n in self.SHAPES:
            x = bf16(m, n, scale=3.0)
            run = run_launch("softmax", torch.empty_like(x), [x], dim=1)
            self.check(run.outputs[0], torch.softmax(x.double(), 1), torch.softmax(x.to("atalla"), 1))

    def test_layer_norm(self):
        for m, n in self.SHAPES[1:]:
            x, w, b = bf16(m, n, scale=2.0) + 0.5, bf16(n, seed=1), bf16(n, seed=2)
            run = run_launch("layer_norm", torch.empty_like(x), [x, w, b], extra_outputs=2, eps=1e-5)
            exact = F.layer_norm(x.double(), (n,), w.double(), b.double())
            functional = F.layer_norm(x.to("atalla"), (n,), w.to("atalla"), b.to("atalla"))
            self.check(run.outputs[0], exact, functional)
        run = run_launch("layer_norm", torch.empty_like(x), [x, None, None], extra_outputs=2, eps=1e-5)
        self.check(run.outputs[0], F.layer_norm(x.double(), (n,)))

    def test_rms_norm(self):
        from torch_atalla.compiler.targets.chip.image import Address, Image
        from torch_atalla.compiler.targets.chip.kernels import rows

        for m, n in self.SHAPES[1:]:
            x, w = bf16(m, n), bf16(n, seed=1)
            image = Image()
            for variant, words, starts in rows.plan("rms_norm", m, n, n, n, weight=True, eps=1e-5):
                at = {name: Address(name, 2 * first) for name, first in starts.items()} | {"weight": Address("w")}
                image.call(variant.name, lambda v=variant: rows.build(v), {**words, **at})
            code = image.link()
            place = {"table": 0x1000, "w": 0x8000, "x": 0x10000, "y": 0x80000}
            memory = {
                0x1000: image.table(place),
                0x8000: w.view(torch.uint8).numpy(),
                0x10000: x.view(torch.uint8).numpy(),
            }
            result = isa.run(code, memory, args=(0x1000,), timing=False)
            found = torch.from_numpy(result.memory(0x80000, (m, n), "bfloat16"))
            self.check(found, F.rms_norm(x.double(), (n,), w.double(), 1e-5))

    def test_reductions(self):
        x = bf16(6, 40, 70)
        for name, op in (("sum", torch.sum), ("mean", torch.mean), ("amax", torch.amax), ("amin", torch.amin)):
            for dims in ((2,), (1,), (0,), (0, 1), (1, 2)) if name != "amin" else ((1,), (0,), (0, 1)):
                kept = [1 if d in dims else size for d, size in enumerate(x.shape)]
                reduced = sum(1 << d for d in dims)
                run = run_launch(f"reduce.{name}", torch.empty(kept, dtype=BF16), [x], reduced=reduced)
                exact = op(x.double(), dims, keepdim=True)
                self.check(run.outputs[0], exact, op(x.to("atalla"), dims, keepdim=True))

    def test_norm(self):
        for m, n in self.SHAPES:
            x = bf16(m, n)
            run = run_launch("reduce.norm2", torch.empty(m, 1, dtype=BF16), [x], reduced=2)
            functional = torch.linalg.vector_norm(x.to("atalla"), dim=1, keepdim=True)
            self.check(run.outputs[0], torch.linalg.vector_norm(x.double(), dim=1, keepdim=True), functional)

    def test_argmax(self):
        for m, n in (*self.SHAPES, (2, 1000)):
            x = bf16(m, n)
            x[:, n // 2] = x.amax(1)  # the first of equal ones
            run = run_launch("reduce.argmax", torch.empty(m, 1, dtype=torch.int64), [x], reduced=2)
            self.assertEqual(run.outputs[0], x.float().argmax(1, keepdim=True))
        x = bf16(40, 30)
        run = run_launch("reduce.argmax", torch.empty(1, 1, dtype=torch.int64), [x], reduced=3)
        self.assertEqual(run.outputs[0].item(), x.float().argmax().item())


class TestAttention(CodegenTestCase):
    def attend(self, b, h, hk, length, keys, e, ev, mask=None, causal=False, cosine=0.9999):
        q, k, v = bf16(b, h, length, e), bf16(b, hk, keys, e, seed=1), bf16(b, hk, keys, ev, seed=2)
        out = torch.empty(b, length, h, ev, dtype=BF16).transpose(1, 2)
        wide = None if mask is None else mask.expand(b, h, length, keys)
        given = wide if mask is None or mask.dtype is not torch.bool else wide.clone()
        scale = 1 / sqrt(e)
        inputs = [q, k, v, given]
        run = run_launch("attention", out, inputs, constants=(3,), extra_outputs=1, scale=scale, causal=causal)
        exact_mask = mask if mask is None or mask.dtype is torch.bool else mask.double()
        more = {"is_causal": causal, "scale": scale, "enable_gqa": h != hk}
        exact = F.scaled_dot_product_attention(q.double(), k.double(), v.double(), exact_mask, **more)
        exact = exact.nan_to_num(0.0)
        device_mask = None if mask is None else mask.to("atalla")
        functional = F.scaled_dot_product_attention(q.to("atalla"), k.to("atalla"), v.to("atalla"), device_mask, **more)
        self.check(run.outputs[0], exact, functional.nan_to_num(0.0), cosine)
        sums = torch.empty(b, h, length, dtype=BF16)
        both = run_launch("attention", out, inputs, constants=(3,), further=(sums,), scale=scale, causal=causal)
        self.assertEqual(both.outputs[0], run.outputs[0], rtol=0, atol=0)
        self.assertLess(both.stats.packets, 2 * run.stats.packets)
        scores = q.double() @ k.double().repeat_interleave(h // hk, 1).mT * scale
        hidden = torch.ones(length, keys, dtype=torch.bool).triu(1) if causal else torch.zeros((), dtype=torch.bool)
        if mask is not None and mask.dtype is torch.bool:
            hidden = ~mask
        elif mask is not None:
            scores = scores + mask.double()
        expected = scores.masked_fill(hidden, -inf).logsumexp(-1)
        self.assertEqual(both.outputs[1].double(), expected, atol=0.04, rtol=0.008)

    def test_sizes(self):
        for length, keys, e in ((32, 32, 32), (1, 1, 1), (33, 65, 31), (64, 64, 64), (65, 33, 48), (5, 97, 128)):
            self.attend(1, 2, 2, length, keys, e, e)

    def test_heads(self):
        self.attend(2, 4, 2, 40, 40, 32, 64)

    def test_causal(self):
        self.attend(1, 2, 2, 70, 70, 32, 32, causal=True)

    def test_masks(self):
        generator = torch.Generator().manual_seed(0)
        allowed = torch.rand(2, 1, 40, 70, generator=generator) > 0.3
        allowed[0, 0, 3] = False  # a query that may look nowhere gives 0
        self.attend(2, 2, 2, 40, 70, 32, 32, mask=allowed)
        self.attend(2, 2, 2, 40, 70, 32, 32, mask=bf16(2, 1, 40, 70, seed=9))
        self.attend(2, 2, 2, 40, 70, 32, 32, mask=bf16(2, 1, 1, 70, seed=9))


# Windows of 3 x 3 that halve an image.
HALVED = {"kernel": (1, 3, 3), "stride": (1, 2, 2), "padding": (0, 1, 1)}


class TestImages(CodegenTestCase):
    def convolve(self, n, c, h, w, o, kernel, stride=1, padding=0, dilation=1, groups=1, bias=True, cosine=0.9999):
        x = bf16(n, c, h, w).contiguous(memory_format=torch.channels_last)
        weight = bf16(o, c // groups, *kernel, seed=1).contiguous(memory_format=torch.channels_last)
        offset = bf16(o, seed=2) if bias else None
        double = None if offset is None else offset.double()
        exact = F.conv2d(x.double(), weight.double(), double, stride, padding, dilation, groups)
        out = torch.empty_like(exact, dtype=BF16).contiguous(memory_format=torch.channels_last)
        run = run_launch(
            "convolution",
            out,
            [x, weight, offset],
            constants=(1, 2),
            groups=groups,
            stride=(stride, stride, 1),
            padding=(padding, padding, 0),
            dilation=(dilation, dilation, 1),
        )
        device = (x.to("atalla"), weight.to("atalla"), None if offset is None else offset.to("atalla"))
        self.check(run.outputs[0], exact, F.conv2d(*device, stride, padding, dilation, groups), cosine)

    def test_convolutions(self):
        self.convolve(1, 32, 8, 8, 32, (3, 3))
        self.convolve(2, 64, 15, 15, 70, (3, 3), padding=1)
        self.convolve(1, 3, 30, 70, 40, (7, 7), stride=2, padding=3)
        self.convolve(1, 33, 9, 10, 31, (1, 1), stride=2, bias=False)
        self.convolve(1, 64, 12, 40, 32, (3, 3), padding=2, dilation=2)
        self.convolve(1, 1, 9, 9, 5, (3, 3))
        self.convolve(1, 3, 32, 32, 33, (16, 16), stride=16)
        self.convolve(1, 512, 4, 4, 40, (3, 3), padding=1)  # more weights than image

    def test_images_larger_than_the_scratchpad(self):
        self.convolve(1, 32, 130, 130, 32, (3, 3), padding=1)
        self.convolve(1, 32, 150, 130, 32, (3, 3), stride=2, padding=1, groups=32)
        x = bf16(1, 32, 140, 150).contiguous(memory_format=torch.channels_last)
        exact = F.max_pool2d(x.double(), 3, 2, 1)
        out = torch.empty_like(exact, dtype=BF16).contiguous(memory_format=torch.channels_last)
        run = run_launch("pool.max", out.unsqueeze(2), [x.unsqueeze(2)], extra_outputs=1, dilation=(1, 1, 1), **HALVED)
        self.assertEqual(run.outputs[0].squeeze(2).double(), exact)

    def test_groups(self):
        self.convolve(1, 64, 9, 9, 96, (3, 3), padding=1, groups=2)

    def test_depthwise(self):
        self.convolve(2, 40, 9, 33, 40, (3, 3), padding=1, groups=40)
        self.convolve(1, 64, 11, 11, 64, (3, 3), stride=2, padding=1, groups=64, bias=False)
        self.convolve(1, 32, 12, 12, 32, (7, 7), padding=3, groups=32)

    def test_pooling(self):
        x = bf16(2, 40, 13, 15).contiguous(memory_format=torch.channels_last)
        exact = F.max_pool2d(x.double(), 3, 2, 1)
        out = torch.empty_like(exact, dtype=BF16).contiguous(memory_format=torch.channels_last)
        run = run_launch("pool.max", out.unsqueeze(2), [x.unsqueeze(2)], extra_outputs=1, dilation=(1, 1, 1), **HALVED)
        self.assertEqual(run.outputs[0].squeeze(2).double(), exact)
        exact = F.avg_pool2d(x.double(), 3, 2, 1)
        run = run_launch("pool.average", out.unsqueeze(2), [x.unsqueeze(2)], count_padding=1, **HALVED)
        self.check(run.outputs[0].squeeze(2), exact, F.avg_pool2d(x.to("atalla"), 3, 2, 1))
        even = bf16(2, 40, 12, 15).contiguous(memory_format=torch.channels_last)
        exact = F.adaptive_avg_pool2d(even.double(), (4, 5))
        out = torch.empty_like(exact, dtype=BF16).contiguous(memory_format=torch.channels_last)
        run = run_launch("pool.adaptive_average", out.unsqueeze(2), [even.unsqueeze(2)])
        self.check(run.outputs[0].squeeze(2), exact)


class TestData(CodegenTestCase):
    def test_copies(self):
        x = bf16(40, 70)
        for source in (x, x.t(), x[::2], x[:, 3:50], x[None].expand(3, 40, 70), bf16(5, 6, 7, 8).permute(3, 1, 0, 2)):
            out = torch.empty(source.shape, dtype=BF16)
            self.assertEqual(run_launch("copy", out, [source]).outputs[0], source)
        whole = torch.empty(64, 100, dtype=BF16)[7:47, 20:90]  # into a slice, as concatenation does
        self.assertEqual(run_launch("copy", whole, [x]).outputs[0], x)
        for n in (1, 31, 1023, 1025, 5000):
            self.assertEqual(run_launch("copy", torch.empty(n, dtype=BF16), [bf16(n)]).outputs[0], bf16(n))

    def test_concatenation(self):
        flat, matrices = [bf16(n) for n in (1, 1030, 7)], [bf16(40, n, 9) for n in (3, 32, 1)]
        parts = [(flat, 0), (matrices, 1), ([m.permute(2, 0, 1) for m in matrices], 2), ([x[None] for x in flat], 1)]
        parts += [([torch.arange(12).view(3, 4) - 5] * 11, 1)]
        parts += [([bf16(3, 4), torch.empty(0, 4, dtype=BF16), bf16(1, 4).expand(2, 4)], 0)]
        for inputs, dim in parts:
            want = torch.cat(inputs, dim)
            run = run_launch("cat", torch.empty_like(want), inputs, dim=dim)
            self.assertEqual(run.outputs[0], want)
        whole = torch.empty(64, 100, dtype=BF16)[7:47, 20:90]
        x = bf16(40, 70)
        self.assertEqual(run_launch("cat", whole, [x[:, :33], x[:, 33:]], dim=1).outputs[0], x)

    def transposed(self, source, out=None):
        """Bits, since zeros of both signs are equal. Returns the cycles."""
        run = run_launch("copy", torch.empty(source.shape, dtype=BF16) if out is None else out, [source], timing=True)
        self.assertEqual(run.outputs[0].contiguous().view(torch.int16), source.contiguous().view(torch.int16))
        return run.stats.cycles

    def test_transposes(self):
        for rows in (2, 5, 32, 33, 65):
            for columns in (3, 31, 32, 97):
                self.transposed(bf16(rows, columns).t())
        self.transposed(bf16(3, 70, 100)[:, ::2, 5:90].transpose(1, 2))
        self.transposed(bf16(2, 3, 40, 50).permute(0, 2, 3, 1))
        self.transposed(bf16(2, 40, 50, 3).permute(0, 3, 1, 2))
        self.transposed(bf16(4, 1, 33, 5, 34).permute(4, 3, 1, 0, 2))
        self.transposed(bf16(40, 70).t(), torch.empty(100, 64, dtype=BF16)[7:77, 20:60])

    def test_transposes_keep_what_the_array_does_not(self):
        """A tile with an infinity, a NaN or a -0 goes lane by lane."""
        special = (float("inf"), -float("inf"), float("nan"), -0.0, 1e-40, -1e-40)
        for i, value in enumerate(special):
            x = bf16(3, 70, 100)
            x[0, 3, 4] = x[1, 69, 99] = value
            x[2, 33 + i, 31] = x[2, 69, 32] = 0.0
            x[2, 40, 1 + i] = -value
            self.transposed(x.transpose(1, 2))
            self.transposed(x.permute(2, 0, 1))
        numbers = torch.arange(0x7F80).to(torch.int16).view(BF16)  # all that are finite
        self.transposed(torch.cat((numbers, -numbers)).view(255, 256).t())

    def test_cycles_of_transposes(self):
        """The bus limits them: two transfers of 520 cycles a tile."""
        self.assertLessEqual(self.transposed(bf16(256, 384).t()), 96 * 1040)
        self.assertLessEqual(self.transposed(torch.full((256, 384), -0.0, dtype=BF16).t()), 190_000)
        self.assertLessEqual(self.transposed(bf16(3, 64, 64).permute(1, 2, 0)), 16_000)
        self.assertLessEqual(self.transposed(bf16(1000, 2, 2).transpose(1, 2)), 19_000)  # element by element

    def test_gather(self):
        for width in (1, 31, 64, 384, 1100):
            table, index = bf16(50, width), torch.tensor([3, 0, 49, 3, 17])
            run = run_launch("index_select", torch.empty(5, width, dtype=BF16), [table, index], dim=0)
            self.assertEqual(run.outputs[0], table[index])
        for bad in (-3, 50):
            index = torch.tensor([3, bad])
            with self.assertRaisesRegex(isa.ExecutionError, f"index {bad} out of range for 50 rows"):
                run_launch("index_select", torch.empty(2, 64, dtype=BF16), [bf16(50, 64), index], dim=0)

    def test_integers(self):
        x = torch.tensor([[0, 1, -3], [70, 255, 2]])
        run = run_launch("copy", torch.empty(2, 3, dtype=BF16), [x])
        self.assertEqual(run.outputs[0], x.to(BF16))


instantiate_parametrized_tests(TestMatrixProducts)
instantiate_parametrized_tests(TestPointwise)
