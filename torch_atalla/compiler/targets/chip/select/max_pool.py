# SPDX-License-Identifier: BSD-3-Clause
"""Max pooling. Where its gradient follows, the program keeps, instead of positions in the image, the number of the tap
that each maximum came from: the gradient is then a sum of shifted images on the vector unit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import product
from math import inf

from ....program.ir import Launch, Operand
from ....program.layouts import same_layout
from ..kernels.pointwise import Chain, Unsupported
from ..selection import Selection, check_dtypes, operands_of, selects
from . import data, pointwise
from .image import channels_innermost, four, padded, pool, two

Two = tuple[int, int]
MOST_VIEWS = 4  # of an image, in one pointwise program


@dataclass(frozen=True)
class Taps:
    """Tap numbers of maxima [n, c, oh, ow], and the windows of the pooling."""

    numbers: Operand
    kernel: Two
    stride: Two
    padding: Two
    dilation: Two

    def views(self, image: Operand) -> list[Operand]:
        """For each tap, the elements of an image with its border that the windows find there."""
        found = []
        for i, j in product(*map(range, self.kernel)):
            start = i * self.dilation[0] * image.strides[2] + j * self.dilation[1] * image.strides[3]
            strides = (*image.strides[:2], *(a * b for a, b in zip(image.strides[2:], self.stride)))
            offset = image.offset + start * image.dtype.itemsize
            found.append(replace(image, offset=offset, sizes=self.numbers.sizes, strides=strides))
        return found

    def whole(self, size: Two) -> Two:
        """Sizes of an image of `size` with its border, as far as windows reach."""
        reach = zip(self.numbers.sizes[2:], self.stride, self.kernel, self.dilation)
        need = [(o - 1) * st + (k - 1) * d + 1 for o, st, k, d in reach]
        down, right = (max(n, length + p) for n, length, p in zip(need, size, self.padding))
        return down, right


def same_places(x: object, y: Operand) -> bool:
    return (
        isinstance(x, Operand)
        and x.offset == y.offset
        and x.sizes == y.sizes
        and same_layout(x.sizes, x.strides, y.strides)
    )


def only_gradients_read(s: Selection, indices: Operand) -> bool:
    """Whether all that reads the positions are gradients of pooling."""
    if any(port.operand.buffer == indices.buffer for port in s.program.outputs):
        return False
    readers = [i for i in s.program.instructions if any(x.buffer == indices.buffer for x in i.reads())]
    return all(
        isinstance(reader, Launch)
        and reader.kernel == "pool.scatter"
        and same_places(reader.inputs[1], indices)
        and reader.parameter("add")
        and len(reader.outputs[0].sizes) == 5  # type: ignore[union-attr]
        and reader.outputs[0].sizes[2] == 1  # type: ignore[union-attr]
        for reader in readers
    )


def emit_max_pool(s: Selection, x: Operand, out: Operand, indices: Operand, shape: tuple[Two, Two, Two, Two]) -> None:
    """shape: kernel, stride, padding and dilation."""
    taps = Taps(channels_innermost(s, out.sizes), *shape)
    image = padded(s, x, taps.padding, taps.whole((x.sizes[2], x.sizes[3])), -inf, x.sizes[1])
    views = taps.views(image)
    most = channels_innermost(s, out.sizes)
    for first in range(0, len(views), MOST_VIEWS):
        inputs = [*([most] if first else []), *views[first : first + MOST_VIEWS]]
        chain = Chain(len(inputs))
        if reduce(partial(chain.add, "maximum"), range(len(inputs))) == 0:
            chain.add("round", 0)
        pointwise.emit(s, most, inputs, tuple(chain.steps))
    # The last of equal maxima first, so that the first of them stays.
    rest = list(enumerate(views))[::-1]
    for first in range(0, len(rest), MOST_VIEWS):
        group = rest[first : first + MOST_VIEWS]
        inputs = [most, *(view for _, view in group), *([taps.numbers] if first else [])]
        value: int | float = len(inputs) - 1 if first else float(len(views) - 1)
        chain = Chain(len(inputs))
        for place, (number, _) in enumerate(group, 1):
            value = chain.add("where", chain.add("eq", 0, place), float(number), value)
        pointwise.emit(s, taps.numbers, inputs, tuple(chain.steps))
    data.emit_copy(s, out, most)
    s.taps[indices.buffer] = taps


@selects("pool.max")
def max_pool(s: Selection, launch: Launch) -> None:
    (out, x), indices = operands_of(launch), (*launch.outputs, None)[1]
    check_dtypes((x, out))
    read = indices is not None and s.is_read(indices.buffer)
    if indices is None or not (read or indices.buffer in {p.operand.buffer for p in s.program.outputs}):
        pool(s, launch, x, out, "max", None)
        return
    if not only_gradients_read(s, indices):
        raise Unsupported("the indices of the maxima")
    kernel, stride, padding, dilation = (
        two(launch.parameter(name), out) for name in ("kernel", "stride", "padding", "dilation")
    )
    emit_max_pool(s, four(x), four(out), indices, ((*kernel,), (*stride,), (*padding,), (*dilation,)))  # type: ignore[arg-type]


@selects("pool.scatter")
def scatter(s: Selection, launch: Launch) -> None:
    """The gradient of a pooling whose taps are known."""
    out, x, indices = operands_of(launch, 2)
    taps = s.taps.get(indices.buffer)
    if taps is None:
        raise Unsupported("positions of unknown windows")
    target, gradient = four(out), channels_innermost(s, four(x).sizes)
    data.emit_copy(s, gradient, four(x))
    n, c, h, w = target.sizes
    image = channels_innermost(s, (n, c, *taps.whole((h, w))))
    pointwise.emit(s, image, [], (("const", 0.0),))
    for number, view in enumerate(taps.views(image)):
        steps = (("eq", 1, float(number)), ("where", 3, 2, 0.0), ("add", 0, 4))
        pointwise.emit(s, view, [view, taps.numbers, gradient], steps)
    start = taps.padding[0] * image.strides[2] + taps.padding[1] * image.strides[3]
    inner = replace(image, sizes=target.sizes, offset=start * image.dtype.itemsize)
    data.emit_copy(s, target, inner)
