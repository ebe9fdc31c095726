# SPDX-License-Identifier: BSD-3-Clause
"""Kernels that compute, for each place of the result, which places of the input it takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from .memory import Tensor
from .routine import Context, routine
from .values import Core, Value


@contextmanager
def positions(x: Tensor, dims: Sequence[int] | None = None) -> Iterator[list[Value]]:
    """Passes over all places of a tensor (or of some of its dimensions), with their coordinates."""
    with ExitStack() as stack:
        # A register of its own: the loop's index is read again in inner loops.
        found = [stack.enter_context(x.core.range(x.size(dim))) for dim in (range(x.rank) if dims is None else dims)]
        yield found


def taken_from(place: Callable[[Context, Tensor, int, Value], Value]) -> Callable[[Context], None]:
    """A kernel that copies bits: place gives the coordinate in the input for one of the result."""

    def body(c: Context) -> None:
        (out,), (x,) = c.outputs, c.inputs
        with positions(out) as here:
            there = [place(c, x, dim, index) for dim, index in enumerate(here)]
            out[here].copy(x[there])

    return body


def _flip(c: Context, x: Tensor, dim: int, index: Value) -> Value:
    return x.size(dim) - 1 - index if c.parameter("flipped") >> dim & 1 else index


def _roll(c: Context, x: Tensor, dim: int, index: Value) -> Value:
    shift = _nth(c.parameter("shift"), dim)
    return c.core.modulo(index - shift, x.size(dim)) if shift else index


def _nth(values: Sequence[int], place: int) -> int:
    return int(values[place]) if place < len(values) else 0


def _reflect(c: Context, x: Tensor, dim: int, index: Value) -> Value:
    front, size = _nth(c.parameter("front"), dim), x.size(dim)
    inside = c.core.magnitude(index - front)
    return c.core.select(inside < size, inside, (size - 1) * 2 - inside)


def _replicate(c: Context, x: Tensor, dim: int, index: Value) -> Value:
    return clamped(c.core, index - _nth(c.parameter("front"), dim), x.size(dim))


PADDINGS = {"reflect": _reflect, "replicate": _replicate}
routine.update({"flip": taken_from(_flip), "roll": taken_from(_roll)})
routine.update({f"pad.{kind}": taken_from(place) for kind, place in PADDINGS.items()})


def clamped(core: Core, index: Value, size: Value) -> Value:
    """To 0 ... size - 1."""
    index = core.select(index < 0, 0, index)
    return core.select(index < size, index, size - 1)


@routine("triangle")
def triangle(c: Context) -> None:
    (out,), (x,) = c.outputs, c.inputs
    diagonal, upper = c.parameter("diagonal"), c.parameter("kept") == "upper"
    with positions(out) as here:
        distance = here[-1] - here[-2]
        kept = distance >= diagonal if upper else distance <= diagonal
        copy_where(c, kept, out[here], x, here)


def copy_where(c: Context, condition: Value, target: Tensor, x: Tensor, there: Sequence[Value]) -> None:
    """The element of x where the condition holds, else 0."""
    with c.core.when(condition):
        target.copy(x[there])
    with c.core.when(~condition):
        target.store(c.core.constant(0, target.kind))


def _window(c: Context, k: Value, o: Value, d: int) -> Value:
    dilation, padding, stride = (c.parameter(name)[d] for name in ("dilation", "padding", "stride"))
    return o * stride - padding + k * dilation


@routine("im2col")
def im2col(c: Context) -> None:
    (out,), (x,) = c.outputs, c.inputs
    with positions(out) as (n, channel, kh, kw, oh, ow):
        h, w = _window(c, kh, oh, 0), _window(c, kw, ow, 1)
        target = out[n, channel, kh, kw, oh, ow]
        inside = within(c.core, h, x.size(2)) & within(c.core, w, x.size(3))
        copy_where(c, inside, target, x, [n, channel, h, w])


def within(core: Core, index: Value, size: Value) -> Value:
    return core.new("sltu.s", "b", index, size)


@routine("col2im")
def col2im(c: Context) -> None:
    (out,), (x,) = c.outputs, c.inputs
    core = c.core
    with positions(out) as (n, channel, h, w):
        total = core.variable(core.constant(0, "f" if out.kind == "f" else "i"))
        with positions(x, [2, 3, 4, 5]) as (kh, kw, oh, ow):
            hits = _window(c, kh, oh, 0).equals(h) & _window(c, kw, ow, 1).equals(w)
            with core.when(hits):
                value = x[n, channel, kh, kw, oh, ow].load()
                total.set(total | core.convert(value, "i") if out.kind == "b" else total + value)
        out[n, channel, h, w].store(total)


@routine("cross")
def cross(c: Context) -> None:
    (out,), (a, b) = c.outputs, c.inputs
    with out.lines(c.parameter("dim"), out, a, b) as (target, p, q):
        x, y = ([line[i].load() for i in range(3)] for line in (p, q))
        for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
            target[i].store(x[j] * y[k] - x[k] * y[j])
