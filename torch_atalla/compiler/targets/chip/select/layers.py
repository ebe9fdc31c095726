# SPDX-License-Identifier: BSD-3-Clause
"""Convolution over layers of images: the layers that a window reaches become channels of one image."""

from __future__ import annotations

from dataclasses import replace

import torch

from ....program.ir import Buffer, BufferKind, Launch, Operand, contiguous_strides
from ..kernels.pointwise import Unsupported
from ..selection import Selection
from . import data, pointwise
from .moves import part, permuted


def applies(launch: Launch) -> bool:
    """Whether the launch has layers, and not one alone, which is an image."""
    out, x, weight = launch.outputs[0], *launch.inputs[:2]
    assert out is not None and isinstance(x, Operand) and isinstance(weight, Operand)
    return len(out.sizes) == 5 and (x.sizes[2], out.sizes[2], weight.sizes[2]) != (1, 1, 1)


def as_images(s: Selection, launch: Launch) -> tuple[Launch, Operand]:
    """The convolution of x [n, c, d, h, w] as that of images [n * od, kd * c, h, w], and its result as [n, o, od, oh,
    ow]."""
    (out,) = launch.outputs
    x, weight, *others = launch.inputs
    assert out is not None and isinstance(x, Operand) and isinstance(weight, Operand)
    if getattr(launch, "residual", None) is not None:
        raise Unsupported("a residual of layers")
    n, o, od, oh, ow = out.sizes
    given = {name: launch.parameter(name) for name in launch.contract.parameters}
    images = _images(s, launch, x, weight.sizes[2], od)
    result = s.new(out.sizes, (0, 2, 3, 4, 1)) if out.strides[0] != od * out.strides[2] else out
    target = replace(
        result, sizes=(n * od, o, oh, ow), strides=(result.strides[2], result.strides[1], *result.strides[3:])
    )
    for name in ("stride", "padding", "dilation"):
        given[name] = (*given[name][1:], int(name != "padding"))
    made = replace(launch, outputs=(target,), inputs=(images, _taps(s, weight), *others))
    return made.with_parameters(**given), result


def _images(s: Selection, launch: Launch, x: Operand, reach: int, layers: int) -> Operand:
    """For each of the result's layers an image [groups * reach * c / groups, h, w] of the layers that it sees."""
    n, c, d, h, w = x.sizes
    groups = launch.parameter("groups")
    stride, before, dilation = (launch.parameter(name)[0] for name in ("stride", "padding", "dilation"))
    per, line = c // groups, w * reach * c
    images = s.new((n * layers, reach * c, h, w), (0, 2, 3, 1))
    split = (n, layers, groups, per, h, w)
    outer = (x.strides[0], stride * x.strides[2], per * x.strides[1], x.strides[1])
    source = replace(x, sizes=split, strides=(*outer, *x.strides[3:]))
    target = replace(images, sizes=split, strides=(layers * h * line, h * line, reach * per, 1, line, reach * c))
    for tap in range(reach):
        mine = part(target, split, (0, 0, 0, tap * per))
        first = tap * dilation - before  # the layer that the first image sees
        low = min(layers, max(0, -(first // stride)))
        high = max(low, min(layers, (d - 1 - first) // stride + 1))
        for begin, end in ((0, low), (high, layers)):
            if begin < end:
                pointwise.emit(s, part(mine, (n, end - begin, *split[2:]), (0, begin)), [], (("const", 0.0),))
        if low < high:
            seen = replace(source, offset=source.offset + (first + low * stride) * x.strides[2] * x.dtype.itemsize)
            sizes = (n, high - low, *split[2:])
            data.emit_copy(s, part(mine, sizes, (0, low)), replace(seen, sizes=sizes))
    return images


def _taps(s: Selection, weight: Operand) -> Operand:
    """[o, c, kd, kh, kw] as [o, kd * c, kh, kw]."""
    o, c, kd, kh, kw = weight.sizes
    sizes = (o, kd * c, kh, kw)
    if s.is_constant(weight):
        values = s.tensor(weight).transpose(1, 2).reshape(sizes).contiguous()
        buffer = Buffer(len(s.program.buffers), BufferKind.CONSTANT, "", values.nbytes, values)
        s.program.buffers.append(buffer)
        s.network.constant_buffers.add(buffer.index)
        return Operand(buffer.index, 0, sizes, contiguous_strides(sizes), torch.bfloat16)
    made = s.new((o, kd, c, kh, kw))
    data.emit_copy(s, made, permuted(weight, (0, 2, 1, 3, 4)))
    return replace(made, sizes=sizes, strides=contiguous_strides(sizes))
