# SPDX-License-Identifier: BSD-3-Clause
"""Convolution on images whose channels are innermost."""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import partial

import torch

from ....program.ir import Launch, Operand
from ..image import Address
from ..kernels import gemm, gemm_image, gemm_plan
from ..kernels.common import LANES, tiles
from ..kernels.pointwise import Unsupported
from ..selection import Selection
from . import data, layers, packing, weight_gradient
from .image import dense_pixels, distances, emit_planes, four, in_pixel_order, padded
from .matrix import bias_address, dense, emit_additions
from .moves import part
from .weights import pack_weights, tiles_beside

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
            spread = packing.spread(s, self.weight)
        bias = bias_address(s, self.bias, c) if self.bias is not None else None
        emit_planes(s, "dot", self.x, self.result, self.shape, spread, bias, self.activation)

    def planes(self) -> bool:
        """With the image in the scratchpad, unless a line is too long."""
        n, c, h, w = self.x.sizes
        _, o, oh, ow = self.target.sizes
        per, channel_tiles, places = o // self.groups, c // self.groups // LANES, map(distances, (self.x, self.result))
        shape = gemm_image.Image(n, (h, w), (oh, ow), per, *self.shape, channel_tiles, *places)
        bands = gemm_image.plan_image(shape, self.bias is not None, self.activation, self.s.groups)
        taps = packing.Taps(self.kernel, c // self.groups, c // self.groups, False)
        weights, beside = self.weights(taps, bands[0].words) if bands else ([], 1)
        for band in bands or ():
            deltas = Address(self.s.constant(torch.tensor(band.deltas, dtype=torch.int32)))
            for group in range(self.groups):
                more = self.addresses(group, weights[group], band.a_start, band.c_start) | {"deltas": deltas}
                variant, words = gemm_plan.place_tiles(band.variant, band.words, beside)
                variant = replace(variant, residual=self.residual is not None)
                self.s.call(gemm.build, variant, {**words, **more})
        return bands is not None

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
        product, numbers = gemm_plan.plan_pixels(shape, self.bias is not None, self.activation, s.groups)
        weights, beside = self.weights(packing.Taps(self.kernel, c // groups, channels, merged), numbers)
        product, numbers = gemm_plan.place_tiles(product, numbers, beside)
        for group in range(groups):
            product = replace(product, residual=self.residual is not None)
            s.call(gemm.build, product, {**numbers, **self.addresses(group, weights[group], 0, 0)})

    def weights(self, taps: packing.Taps, words: dict[str, int]) -> tuple[list[Address], int]:
        """In tiles, by group; and how many of the tiles lie side by side."""
        s, weight, per = self.s, self.weight, self.target.sizes[1] // self.groups
        beside = tiles_beside(words["nt"] * words["kt"], s.memory) if s.is_constant(weight) else 1
        found = []
        for group in range(self.groups):
            offset = weight.offset + group * per * weight.strides[0] * weight.dtype.itemsize
            part = replace(weight, sizes=(per, *weight.sizes[1:]), offset=offset)
            if not s.is_constant(weight):
                found.append(packing.pack(s, part, taps))
                continue
            found.append(Address(s.constant_of((part, taps, beside), partial(_packed, s.tensor(part), taps, beside))))
        return found, beside

    def addresses(self, group: int, weights: Address, a_start: int, c_start: int) -> dict[str, Address]:
        s, per = self.s, self.target.sizes[1] // self.groups
        found = {
            "a": s.address(self.x, a_start + group * (self.x.sizes[1] // self.groups)),
            "c": s.address(self.result, c_start + group * per),
            "w": weights,
            "w_base": weights,
        }
        if self.residual is not None:
            found["residual"] = s.address(self.residual, c_start + group * per)
        bias = self.bias
        if bias is not None and s.is_constant(bias):
            one = Operand(bias.buffer, bias.offset + 2 * group * per, (per,), (1,), bias.dtype)
            found["bias"] = bias_address(s, one, per)
        elif bias is not None:
            found["bias"] = s.address(bias, group * per)
        return found


def _packed(weight: torch.Tensor, taps: packing.Taps, beside: int) -> torch.Tensor:
    """[o, c, kh, kw] in tiles, `beside` of them side by side."""
    per, values = weight.shape[0], weight.permute(0, 2, 3, 1)
    if taps.merged:
        values = torch.nn.functional.pad(values, (0, taps.channels - taps.c))
    values = values.reshape(per, -1, taps.run)
    values = torch.nn.functional.pad(values, (0, tiles(taps.run) * LANES - taps.run)).reshape(1, per, -1)
    return pack_weights(values, beside)


def convolution(s: Selection, launch: Launch) -> None:
    if not layers.applies(launch):
        _Convolution(s, launch).emit()
        return
    images, result = layers.as_images(s, launch)
    _Convolution(s, images).emit()
    (out,) = launch.outputs
    if out is not None and result is not out:
        data.emit_copy(s, out, result)


SELECTORS = {"convolution": convolution}
