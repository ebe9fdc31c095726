# SPDX-License-Identifier: BSD-3-Clause
"""Softmax, layer norm, attention, reductions."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import torch

from ....program.ir import Launch, Operand, contiguous_strides
from ..image import Address
from ..kernels import attention as heads
from ..kernels import down, rows, window
from ..kernels.pointwise import Layout, Unsupported, collapse
from ..selection import Selection, check_dtypes
from .data import emit_copy
from .image import emit_windows
from .matrix import bias_address, dense


def row_groups(x: Operand, out: Operand, dims: int) -> list[tuple[int, int, int, int, int]]:
    """The leading `dims` dimensions as groups of evenly spaced rows: (rows, step in x, step in out, first in x, first
    in out).
    """
    lead = collapse(Layout(x.sizes[:dims] or (1,), (out.strides[:dims] or (0,), x.strides[:dims] or (0,))))
    *outer, count = lead.sizes
    o_steps, x_steps = lead.strides
    groups = [(count, x_steps[-1], o_steps[-1], 0, 0)]
    for size, o_step, x_step in zip(outer[::-1], o_steps[-2::-1], x_steps[-2::-1]):
        groups = [(n, xs, os, x0 + i * x_step, o0 + i * o_step) for i in range(size) for n, xs, os, x0, o0 in groups]
        if len(groups) > 4096:
            raise Unsupported("too many groups of rows")
    return groups


def _check_floats(*operands: Operand) -> None:
    if any(o.dtype not in (torch.bfloat16, torch.float32) for o in operands):
        raise Unsupported("dtypes; expected bfloat16")


def _emit_rows(
    s: Selection,
    kind: str,
    x: Operand,
    out: Operand,
    dims: int,
    n: int,
    weight: Operand | None = None,
    bias: Operand | None = None,
    eps: float = 0.0,
    scale: float = 1.0,
) -> None:
    if kind != "argmax":
        _check_floats(x, out)
    count, x_row, *_ = row_groups(x, out, dims)[0]
    if count > 1 and x_row == 0:  # rows that a tile takes together are one in memory
        x = dense(s, x)
    for m, x_row, o_row, x0, o0 in row_groups(x, out, dims):
        for variant, words, first in rows.plan(
            kind, m, n, x_row, o_row, weight is not None, bias is not None, eps, scale
        ):
            more = {"x": s.address(x, x0 + first * x_row), "y": s.address(out, o0 + first * o_row)}
            if weight is not None:
                more["weight"] = bias_address(s, weight, n)
            if bias is not None:
                more["bias"] = bias_address(s, bias, n)
            s.call(rows.build, variant, {**words, **more})


def softmax(s: Selection, launch: Launch) -> None:
    (out,), (x, *_) = launch.outputs, launch.inputs
    assert out is not None and isinstance(x, Operand)
    dim = launch.parameter("dim")
    n = x.sizes[dim]
    check_dtypes((x, out))
    if x.dtype is torch.bool:
        raise Unsupported("softmax of truth values")
    last = len(x.sizes) - 1
    x, target = moved(x, dim, last), moved(out, dim, last)
    if n > 1 and x.strides[last] != 1:
        x = dense(s, x)
    result = target
    if n > 1 and target.strides[last] != 1:
        result = s.new_operand(target.sizes, contiguous_strides(target.sizes), prod(target.sizes))
    _emit_rows(s, "softmax", x, result, last, n)
    if result is not target:
        emit_copy(s, target, result)


def moved(x: Operand, dim: int, place: int) -> Operand:
    """With a dimension at another place."""
    order = [d for d in range(len(x.sizes)) if d != dim]
    order.insert(place, dim)
    return replace(x, sizes=tuple(x.sizes[d] for d in order), strides=tuple(x.strides[d] for d in order))


def norm(s: Selection, launch: Launch) -> None:
    """layer_norm and rms_norm, without their statistics."""
    out = launch.outputs[0]
    x, weight, bias = (*launch.inputs, None, None)[:3]
    assert out is not None and isinstance(x, Operand)
    n = x.sizes[1]
    if n > 1 and x.strides[1] != 1:
        x = dense(s, x)
    result = out
    if n > 1 and out.strides[1] != 1:
        result = s.new_operand(out.sizes, contiguous_strides(out.sizes), prod(out.sizes))
    scale, shift = (given if isinstance(given, Operand) else None for given in (weight, bias))
    _emit_rows(s, launch.kernel, x, result, 1, n, scale, shift, launch.parameter("eps"))
    if result is not out:
        emit_copy(s, out, result)


def attention(s: Selection, launch: Launch) -> None:
    out, logsumexp = (*launch.outputs, None)[:2]
    q, k, v, mask = (*launch.inputs, None)[:4]
    assert out is not None and isinstance(q, Operand) and isinstance(k, Operand) and isinstance(v, Operand)
    if logsumexp is not None:
        raise Unsupported("the logarithms of attention's sums")
    if any(o.dtype is not torch.bfloat16 for o in (out, q, k, v)):
        raise Unsupported("dtypes; expected bfloat16")
    q, k, v = (dense(s, o) if o.sizes[2] > 1 and o.strides[2] == 0 else o for o in (q, k, v))
    b, h, length, e = q.sizes
    hk, keys, ev = k.sizes[1], k.sizes[2], v.sizes[3]
    if any(o.sizes[3] > 1 and o.strides[3] != 1 for o in (out, q, k, v)):
        raise Unsupported("heads whose elements are not contiguous")
    kind: str = "none"
    m: tuple[int, ...] = (0, 0, 0, 0)
    address = None
    if isinstance(mask, Operand):
        if keys > 1 and mask.strides[3] != 1:
            mask = _spread_rows(s, mask)
        kind = "bool" if mask.dtype is torch.bool else "add"
        m, address = mask.strides, s.address(mask)
        if length == 1:
            m = (m[0], m[1], 0, m[3])
    per = h // hk
    outer = [
        (b, (q.strides[0], k.strides[0], v.strides[0], out.strides[0], m[0])),
        (hk, (per * q.strides[1], k.strides[1], v.strides[1], per * out.strides[1], per * m[1])),
        (per, (q.strides[1], 0, 0, out.strides[1], m[1])),
    ]
    sizes = heads.Heads(length, keys, e, ev, q.strides[2], k.strides[2], v.strides[2], out.strides[2], m[2], outer)
    causal = bool(launch.parameter("causal"))
    table = Address(s.constant(torch.tensor(heads.head_table(sizes), dtype=torch.int32)))
    for variant, words, first in heads.plan(sizes, launch.parameter("scale"), kind, causal):
        more = {
            "q": s.address(q, first * q.strides[2]),
            "k": s.address(k),
            "v": s.address(v),
            "o": s.address(out, first * out.strides[2]),
            "heads": table,
        }
        if address is not None:
            more["mask"] = Address(address.region, address.offset + 2 * first * m[2])
        s.call(heads.build, variant, {**words, **more})


def _spread_rows(s: Selection, mask: Operand) -> Operand:
    """Copy the mask so that its rows are contiguous. Other dimensions that broadcast keep their stride of 0."""
    sizes = tuple(
        1 if stride == 0 and d < 3 else size for d, (size, stride) in enumerate(zip(mask.sizes, mask.strides))
    )
    copied = dense(s, replace(mask, sizes=sizes))
    strides = tuple(0 if size == 1 else stride for size, stride in zip(sizes, copied.strides))
    return replace(copied, sizes=mask.sizes, strides=strides)


FEW_ROWS = 16  # of results, below which a tile of them would leave most of a transfer empty


def reduction(kind: str, mean: bool = False):
    def select(s: Selection, launch: Launch) -> None:
        (out,), (x, *_) = launch.outputs, launch.inputs
        assert out is not None and isinstance(x, Operand)
        _check_floats(x, out)
        reduced, kept = _dimensions(launch, x)
        reduce_into(s, kind, out, x, reduced, kept, 1.0 / prod(x.sizes[d] for d in reduced) if mean else 1.0)

    return select


def reduce_into(
    s: Selection, kind: str, out: Operand, x: Operand, reduced: list[int], kept: list[int], scale: float
) -> None:
    """out = scale times a reduction of x over dimensions `reduced`; those of one element may be left out. out has all
    dimensions of x."""
    reduced = [d for d in reduced if x.sizes[d] != 1]
    kept = sorted((d for d in kept if x.sizes[d] != 1), key=lambda d: -x.strides[d])
    lanes = next((d for d in kept if x.strides[d] == 1 and out.strides[d] == 1), None)
    if lanes is not None or not reduced:
        order = [d for d in kept if d != lanes]
        sizes = [x.sizes[d] for d in order] + [1] * (not order) + [1 if lanes is None else x.sizes[lanes]]
        o_steps = [out.strides[d] for d in order] + [1] * (not order) + [1]
        x_steps = [x.strides[d] for d in order] + [1] * (not order) + [1]
        taps = [(x.sizes[d], x.strides[d]) for d in reduced]
        longest = max(taps, default=(1, 0))
        if sizes[-2] < FEW_ROWS and longest[0] >= FEW_ROWS:
            loops = list(zip(sizes[:-1], o_steps[:-1], x_steps[:-1]))
            taps.remove(longest)
            for variant, words, first in down.plan(kind, sizes[-1], *longest, loops, taps, scale):
                s.call(down.build, variant, {**words, "o": s.address(out, first), "x": s.address(x, first)})
            return
        emit_windows(s, kind, window.Windows(sizes, o_steps, x_steps, taps), out, x, scale)
        return
    if kind == "min":
        raise Unsupported("the least of a contiguous run")
    run = _run(x, reduced)
    if len(run) < len(reduced):  # first the run, then what is left, with the kept dimensions innermost
        rest = [d for d in reduced if d not in run]
        strides, step = [0] * len(x.sizes), 1
        for d in (*kept[::-1], *rest[::-1]):
            strides[d] = step
            step *= x.sizes[d]
        part = s.new_operand(tuple(1 if d in run else n for d, n in enumerate(x.sizes)), tuple(strides), step)
        reduce_into(s, kind, part, x, run, [*kept, *rest], 1.0)
        reduce_into(s, kind, out, part, rest, kept, scale)
        return
    _emit_run(s, kind, x, out, kept, prod(x.sizes[d] for d in reduced), scale)


def _run(x: Operand, dims: list[int]) -> list[int]:
    """Those of the dimensions that are one contiguous run."""
    found, step = [], 1
    for d in sorted(dims, key=lambda d: x.strides[d]):
        if x.strides[d] == step:
            found.append(d)
            step *= x.sizes[d]
    if not found:
        raise Unsupported(f"a reduction over dimensions {dims} without neighbours in memory")
    return found


def _dimensions(launch: Launch, x: Operand) -> tuple[list[int], list[int]]:
    """Those that are reduced and those that are kept, without those of one element."""
    mask, dims = launch.parameter("reduced"), [d for d, size in enumerate(x.sizes) if size != 1]
    return [d for d in dims if mask >> d & 1], [d for d in dims if not mask >> d & 1]


def _check_run(x: Operand, reduced: list[int], what: str) -> None:
    joined = collapse(Layout(tuple(x.sizes[d] for d in reduced), (tuple(x.strides[d] for d in reduced),)))
    if len(joined.sizes) != 1 or (joined.strides[0] != (1,) and joined.sizes[0] > 1):
        raise Unsupported(f"{what} over dimensions {reduced} that are not one contiguous run")


def _emit_run(
    s: Selection, kind: str, x: Operand, out: Operand, kept: list[int], count: int, scale: float = 1.0
) -> None:
    """A reduction over `count` neighbours in memory."""
    sizes = (*(x.sizes[d] for d in kept), count)
    rows_of, results = (replace(o, sizes=sizes, strides=(*(o.strides[d] for d in kept), 1)) for o in (x, out))
    _emit_rows(s, kind, rows_of, results, len(kept), count, scale=scale)


def argmax(s: Selection, launch: Launch) -> None:
    (out,), (x, *_) = launch.outputs, launch.inputs
    assert out is not None and isinstance(x, Operand)
    if x.dtype is not torch.bfloat16 or out.dtype is not torch.int64:
        raise Unsupported("dtypes; expected bfloat16, and 64-bit indices")
    reduced, kept = _dimensions(launch, x)
    _check_run(x, reduced, "the position of a maximum")
    _emit_run(s, "argmax", x, out, kept, prod(x.sizes[d] for d in reduced))


def norm2(s: Selection, launch: Launch) -> None:
    (out,), (x, *_) = launch.outputs, launch.inputs
    assert out is not None and isinstance(x, Operand)
    reduced, kept = _dimensions(launch, x)
    _check_run(x, reduced, "a norm")
    _emit_run(s, "norm2", x, out, kept, prod(x.sizes[d] for d in reduced))


SELECTORS = {
    "softmax": softmax,
    "attention": attention,
    "reduce.sum": reduction("sum"),
    "reduce.mean": reduction("sum", mean=True),
    "reduce.amax": reduction("max"),
    "reduce.amin": reduction("min"),
    "reduce.argmax": argmax,
    "reduce.norm2": norm2,
}
