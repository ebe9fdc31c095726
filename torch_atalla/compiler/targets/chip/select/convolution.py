# SPDX-License-Identifier: BSD-3-Clause
"""Convolution on images whose channels are innermost."""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import partial

import torch

from torch_atalla.isa.geometry import LANES

from ....program.ir import Launch, Operand
from ..image import Address
from ..kernels import gemm, gemm_plan
from ..kernels.pointwise import Unsupported
from ..kernels.tiling import tiles
from ..selection import Selection, selects
from . import data, layers, weight_gradient, weights
from .image import dense_pixels, distances, emit_planes, four, in_pixel_order, padded, windows_over
from .matrix import bias_address, dense, emit_additions
from .moves import behind, part

PART = 3 * LANES  # pixels of a part of a line: two of them are one block of a product
MOST_COLUMNS = gemm_plan.RESIDUAL_ROW * LANES  # of a product with a residual


class _Convolution:
    """One launch: x [n, c, h, w], weight [o, c / groups, kh, kw], out [n, o, oh, ow] with channels innermost."""

    def __init__(self, s: Selection, launch: Launch) -> None:
        (out,) = launch.outputs
        x, weight, bias, outside = (*launch.inputs, None, None)[:4]
        assert out is not None and isinstance(x, Operand) and isinstance(weight, Operand)
        groups, dims = launch.parameter("groups"), len(out.sizes) - 2
        stride, padding, dilation = ([*launch.parameter(name)[:dims]] for name in ("stride", "padding", "dilation"))
        if dims == 1:
            stride, padding, dilation = [1, *stride], [0, *padding], [1, *dilation]
        if dims == 3:  # images of one layer: `four` takes no others
            (_, *stride), (_, *padding), (_, *dilation) = stride, padding, dilation
        self.s, self.groups = s, groups
        self.x, self.target, weight = four(x), four(out), four(weight)
        if any(o.dtype is not torch.bfloat16 for o in (self.x, self.target, weight)):
            raise Unsupported("dtypes; expected bfloat16")
        if min(padding) < 0:
            raise Unsupported("negative padding")
        if outside is not None:
            raise Unsupported("a value outside of the input; expected zeros")
        self.stride, self.padding, self.dilation = ((int(p[0]), int(p[1])) for p in (stride, padding, dilation))
        self.weight = weight
        self.kernel = (weight.sizes[2], weight.sizes[3])
        self.shape = (self.kernel, self.stride, self.padding, self.dilation)
        self.bias = bias if isinstance(bias, Operand) else None
        if self.bias is not None and not s.is_constant(self.bias) and self.bias.strides != (1,):
            self.bias = dense(s, self.bias)
        self.activation, self.residual = getattr(launch, "activation", None), getattr(launch, "residual", None)

    def emit(self) -> None:
        c, (n, o, oh, ow) = self.x.sizes[1], self.target.sizes
        depthwise = self.groups == c and c > 1 and o % c == 0
        plain = self.groups == 1 and self.bias is None and self.residual is None and self.activation is None
        if plain and not self.s.is_constant(self.weight) and weight_gradient.applies(self.x, self.weight, self.target):
            weight_gradient.emit(self.s, self.x, self.weight, self.target, self.stride, self.padding, self.dilation)
            return
        longest = ow if depthwise else self.longest_line() or ow  # `plan_pixels` refuses lines without room for a pixel
        ordered = in_pixel_order(self.target) and (o > 1 or distances(self.target)[2] > 1)  # no rows of one element
        later: tuple = ()
        if self.residual is not None and (depthwise or not ordered or o > MOST_COLUMNS or ow > longest):
            later, self.residual, self.activation = (self.residual, self.activation), None, None
        if ow > longest:
            self.parts(longest)
        else:
            self.result = self.target
            if not ordered:
                pixel = max(o, 2)
                steps = (pixel * oh * ow, 1, ow * pixel, pixel)
                self.result = self.s.new_operand(self.target.sizes, steps, n * pixel * oh * ow)
            self.whole(depthwise)
            if not ordered:
                data.emit_copy(self.s, self.target, self.result)
        if later:
            other, activation = later
            emit_additions(self.s, self.target, [(other, 1.0)], activation)

    def longest_line(self) -> int:
        """Pixels of a line of the result that one block of a product may have."""
        (kh, kw), c = self.kernel, self.x.sizes[1]
        merged = self.dilation[1] == 1 and self.groups == 1
        steps = kh * tiles(kw * max(c, 2)) if merged else kh * kw * tiles(c // self.groups)
        return gemm_plan.longest_line(steps, tiles(self.target.sizes[1] // self.groups), self.s.groups)

    def parts(self, longest: int) -> None:
        """Lines in parts of at most `longest` pixels, each a convolution of its own."""
        n, o, oh, ow = self.target.sizes
        height, width = (self.reach(d, size) for d, size in enumerate((oh, ow)))
        x = self.x
        if max(self.padding) or (x.sizes[1] > 1 and x.strides[1] != 1) or height > x.sizes[2] or width > x.sizes[3]:
            size = (max(height, self.padding[0] + 1), max(width, self.padding[1] + 1))
            x = padded(self.s, x, self.padding, size, 0.0, x.sizes[1])
        c, pixel = x.sizes[1], self.target.strides[3]
        taken, first = min(longest, PART), 0
        if oh == self.kernel[0] == 1:  # most parts are the lines of one image
            lines, step = ow // taken, taken * self.stride[1]
            sizes, strides = (n, c, lines, self.reach(1, taken)), (*x.strides[:2], step * x.strides[3], x.strides[3])
            image = replace(x, sizes=sizes, strides=strides)
            strides = (*self.target.strides[:2], taken * pixel, pixel)
            self.on_part(image, replace(self.target, sizes=(n, o, lines, taken), strides=strides), (1, self.stride[1]))
            first = lines * taken
        while first < ow:
            here = min(taken, ow - first)
            window = part(x, (n, c, height, self.reach(1, here)), (0, 0, 0, first * self.stride[1]))
            self.on_part(window, part(self.target, (n, o, oh, here), (0, 0, 0, first)), self.stride)
            first += here

    def on_part(self, x: Operand, target: Operand, stride: tuple[int, int]) -> None:
        mine = copy.copy(self)
        mine.x, mine.target, mine.stride, mine.padding = x, target, stride, (0, 0)
        mine.shape = (self.kernel, stride, mine.padding, self.dilation)
        mine.emit()

    def reach(self, dim: int, size: int) -> int:
        """How far the windows of so many results reach, down or to the right."""
        return (size - 1) * self.stride[dim] + (self.kernel[dim] - 1) * self.dilation[dim] + 1

    def whole(self, depthwise: bool) -> None:
        c = self.x.sizes[1]
        if c > 1 and self.x.strides[1] != 1 and (self.groups == c or c // self.groups % LANES == 0):
            self.x = padded(self.s, self.x, (0, 0), (self.x.sizes[2], self.x.sizes[3]), 0.0, c)
        if depthwise:
            self.depthwise()
        elif c // self.groups % LANES != 0 or not self.planes():
            self.pixels()

    def depthwise(self) -> None:
        s, c = self.s, self.groups
        if self.target.sizes[1] != c:
            raise Unsupported(f"{self.target.sizes[1]} results of {c} groups")
        if s.is_constant(self.weight):
            spread = Address(s.constant(s.tensor(self.weight).reshape(c, -1).t().contiguous()))
        else:
            spread = weights.spread(s, self.weight)
        bias = bias_address(s, self.bias, c) if self.bias is not None else None
        emit_planes(s, "dot", self.x, self.result, self.shape, spread, bias, self.activation)

    def planes(self) -> bool:
        """With the image in the scratchpad, unless a line is too long."""
        c, per = self.x.sizes[1] // self.groups, self.target.sizes[1] // self.groups
        shape = windows_over(self.x, self.result, self.shape, c)
        bands = gemm_plan.plan_image(shape, per, self.bias is not None, self.activation, self.s.groups)
        if bands:
            self.products(bands, weights.Taps(self.kernel, c, c, False))
        return bool(bands)

    def pixels(self) -> None:
        """With the image loaded anew for every tap, or every line of taps where those are one run in memory."""
        s, x, groups = self.s, self.x, self.groups
        n, c, h, w = x.sizes
        _, o, oh, ow = self.target.sizes
        kh, kw = self.kernel
        stride, dilation = self.stride, self.dilation
        merged = dilation[1] == 1 and groups == 1
        run = kw * c if merged else c // groups
        need_h, need_w = self.reach(0, oh), self.reach(1, ow)
        # The product reads the image where it is, unless it needs a border or its pixels have gaps.
        simple = max(self.padding) == 0 and dense_pixels(x) and need_h <= h and need_w <= w
        channels = c
        if not (simple and run % LANES == 0 and stride[1] * c > 1):
            channels = c if stride[1] * c > 1 else 2
            run = kw * channels if merged else run
            size = (max(need_h, self.padding[0] + 1), max(need_w, self.padding[1] + 1))
            x = self.x = padded(s, x, self.padding, size, 0.0, channels)
        taps, pixels = ((step[0] * x.strides[2], step[1] * channels) for step in (dilation, stride))
        result = (self.result.strides[3] if ow > 1 else o, self.result.strides[0])
        per, across = o // groups, 1 if merged else kw
        shape = gemm_plan.Pixels(n, oh, ow, per, kh, across, run, *taps, *pixels, x.strides[0], *result)
        product = gemm_plan.plan_pixels(shape, self.bias is not None, self.activation, s.groups)
        self.products([product], weights.Taps(self.kernel, c // groups, channels, merged))

    def products(self, planned: list[gemm_plan.Product], taps: weights.Taps) -> None:
        """Adds the same products for each group. Tiles of its weights may be stored side by side."""
        s, per, words = self.s, self.target.sizes[1] // self.groups, planned[0].words
        beside = weights.tiles_beside(words["nt"] * words["kt"], s.memory) if s.is_constant(self.weight) else 1
        tiles_of = [self.weights_of(group, taps, beside) for group in range(self.groups)]
        for product in planned:
            variant, words = gemm_plan.place_tiles(product.variant, product.words, beside)
            call = (replace(variant, residual=self.residual is not None), words, product.starts)
            deltas = Address(s.constant(torch.tensor(product.deltas, dtype=torch.int32))) if product.deltas else None
            for group, w in enumerate(tiles_of):
                c, x = group * per, behind(self.x, group * (self.x.sizes[1] // self.groups))
                residual = None if self.residual is None else behind(self.residual, c)
                places = {"a": x, "c": behind(self.result, c), "residual": residual, "bias": self.bias_of(c, per)}
                s.calls(gemm.build, [call], {**places, "w": w, "w_base": w, "deltas": deltas})

    def weights_of(self, group: int, taps: weights.Taps, beside: int) -> Address:
        s, weight, per = self.s, self.weight, self.target.sizes[1] // self.groups
        part = replace(behind(weight, group * per * weight.strides[0]), sizes=(per, *weight.sizes[1:]))
        if not s.is_constant(weight):
            return weights.pack(s, part, taps)
        return Address(
            s.constant_of((part, taps, beside), partial(weights.pack_constant, s.tensor(part), taps, beside))
        )

    def bias_of(self, first: int, count: int) -> Address | None:
        if self.bias is None:
            return None
        if not self.s.is_constant(self.bias):
            return self.s.address(self.bias, first)
        return bias_address(self.s, replace(behind(self.bias, first), sizes=(count,), strides=(1,)), count)


@selects("convolution")
def convolution(s: Selection, launch: Launch) -> None:
    if not layers.applies(launch):
        _Convolution(s, launch).emit()
        return
    images, result = layers.as_images(s, launch)
    _Convolution(s, images).emit()
    (out,) = launch.outputs
    if out is not None and result is not out:
        data.emit_copy(s, out, result)
