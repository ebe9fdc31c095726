# SPDX-License-Identifier: BSD-3-Clause
"""Matrix products."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import prod

import torch

from ....program.ir import Launch, Operand, contiguous_strides
from ..image import Address
from ..kernels import gemm, gemm_plan
from ..kernels.common import LANES, tiles
from ..kernels.pointwise import Unsupported
from ..selection import Selection
from . import data, pointwise
from .weights import pack_weights, tiles_beside

ACTIVATION = {"none": None, "relu": "relu", "gelu_erf": "gelu", "gelu_tanh": "gelu", "silu": "silu"}


def pack_bias(bias: torch.Tensor) -> torch.Tensor:
    """[n], padded to whole rows of 32."""
    n = bias.numel()
    padded = torch.zeros(tiles(n) * LANES, dtype=torch.bfloat16)
    padded[:n] = bias.reshape(-1).to(torch.bfloat16)
    return padded


def dense(s: Selection, operand: Operand) -> Operand:
    """The operand in a new contiguous buffer, by a copy on the chip."""
    out = s.new_operand(operand.sizes, contiguous_strides(operand.sizes), prod(operand.sizes), operand.dtype)
    data.emit_copy(s, out, operand)
    return out


def product(s: Selection, launch: Launch) -> None:
    (out,) = launch.outputs
    a, w, c = (*launch.inputs, None)[:3]
    assert out is not None and isinstance(a, Operand) and isinstance(w, Operand)
    b, m, n = out.sizes
    k = a.sizes[2]
    if 0 in out.sizes:
        return
    if k == 0:
        raise Unsupported("a product over no elements")
    if not all(x.dtype.is_floating_point for x in (a, w, out)):
        raise Unsupported(f"dtypes {a.dtype}, {w.dtype}, {out.dtype}; expected bfloat16")
    alpha, beta = launch.parameter("alpha"), launch.parameter("beta")
    activation = getattr(launch, "activation", None)
    if activation is None:
        activation = ACTIVATION[launch.parameter("activation")]
    bias, residual = None, None
    given = getattr(launch, "residual", None)
    additions = [] if given is None else [(given, 1.0)]
    if isinstance(c, Operand) and beta != 0:
        shared = (b == 1 or c.strides[0] == 0) and (m == 1 or c.strides[1] == 0) and (n == 1 or c.strides[2] == 1)
        if shared and beta == 1 and alpha == 1 and n <= gemm_plan.BIAS_ROWS * LANES:
            bias = c
        else:
            additions.insert(0, (c, float(beta)))
    if len(additions) == 1 and n <= gemm_plan.RESIDUAL_ROW * LANES:
        (other, factor) = additions[0]
        if factor == 1 and other.strides == out.strides:
            residual = additions.pop()[0]
    if n > 1 and out.strides[2] != 1:
        made = s.new_operand(out.sizes, contiguous_strides(out.sizes), b * m * n)
        product(s, replace(launch, outputs=(made,)))
        data.emit_copy(s, out, made)
        return
    if k > 1 and a.strides[2] != 1:
        a = dense(s, a)
    s_b, s_n = w.strides[0], w.strides[2]
    beside = 1
    # Equal matrices for all of the batch: the batch is more rows.
    if (
        b > 1
        and s_b == 0
        and a.strides[0] == m * a.strides[1]
        and out.strides[0] == m * out.strides[1]
        and not additions
    ):
        a = replace(a, sizes=(1, b * m, k))
        out = replace(out, sizes=(1, b * m, n))
        b, m = 1, b * m
    if m > 1 and a.strides[1] == 0:  # all rows are one in memory
        a = dense(s, a)
    if s.is_constant(w):
        source = replace(w, sizes=(1 if s_b == 0 else b, k, n))
        count = tiles(n) * tiles(k)
        beside = tiles_beside(source.sizes[0] * count, s.memory)
        values = partial(pack_weights, s.tensor(source).transpose(1, 2), beside)
        w_address = Address(s.constant_of(("tiles", source, beside), values))
        layout, w_row, w_batch = "packed", 0, 0 if s_b == 0 else count * LANES * LANES
    else:
        if (k > 1 and w.strides[1] == 0) or (n > 1 and s_n == 0):
            w = dense(s, w)
            s_n = w.strides[2]
        if n > 1 and s_n == 1:
            layout, w_row = "columns", w.strides[1]
        elif k == 1 or w.strides[1] == 1:
            layout, w_row = "rows", s_n
        else:
            w = dense(s, w)
            layout, w_row = "columns", w.strides[1]
        w_batch, w_address = w.strides[0], s.address(w)
    a_row, c_row = (a.strides[1], out.strides[1]) if m > 1 else (max(k, LANES), max(n, LANES))
    matrices = gemm_plan.Matrices(m, n, k, a_row, w_row, c_row, b, a.strides[0], w_batch, out.strides[0])
    words: dict[str, int | Address] = {"a": s.address(a), "w": w_address, "c": s.address(out)}
    if bias is not None:
        words["bias"] = bias_address(s, bias, n)
    group = gemm_plan.pairs_of(s.groups, tiles(k), tiles(n))
    last = None if additions else activation
    variant, more = gemm_plan.plan(matrices, layout, bias is not None, last, alpha, group=group)
    if layout == "packed":
        variant, more = gemm_plan.place_tiles(variant, more, beside)
        words["w_base"] = w_address
    if residual is not None:
        variant, words["residual"] = replace(variant, residual=True), s.address(residual)
    s.call(gemm.build, variant, {**more, **words})
    if additions:
        emit_additions(s, out, additions, activation)


def emit_additions(s: Selection, out: Operand, additions: list[tuple[Operand, float]], activation: str | None) -> None:
    """out = activation(out + the sum of each operand times its factor)."""
    steps: list[tuple] = []
    value, following = 0, 1 + len(additions)
    for i, (_, factor) in enumerate(additions, 1):
        if factor != 1:
            steps.append(("mul", i, factor))
            i, following = following, following + 1
        steps.append(("add", value, i))
        value, following = following, following + 1
    if activation is not None:
        steps.append((activation, value))
    pointwise.emit(s, out, [out, *(operand for operand, _ in additions)], tuple(steps))


def bias_address(s: Selection, bias: Operand, n: int) -> Address:
    if s.is_constant(bias):
        return Address(s.constant(pack_bias(s.tensor(bias).reshape(-1)[:n])))
    if n > 1 and bias.strides[-1] != 1:
        bias = dense(s, bias)
    return s.address(bias)  # whole rows are read; what lies behind it meets no element of the result


SELECTORS = {"gemm": product}
