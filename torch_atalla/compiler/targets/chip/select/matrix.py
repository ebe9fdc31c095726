# SPDX-License-Identifier: BSD-3-Clause
"""Matrix products."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import torch

from torch_atalla.isa.geometry import LANES

from ....program.ir import Launch, Operand
from ..image import Address
from ..kernels import gemm, gemm_plan
from ..kernels.pointwise import Chain, Unsupported
from ..kernels.tiling import tiles
from ..selection import Selection, operands_of, selects
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
    out = s.new(operand.sizes, dtype=operand.dtype)
    data.emit_copy(s, out, operand)
    return out


def has_neighbours(x: Operand, dim: int) -> bool:
    """Whether elements along a dimension are neighbours in memory."""
    return x.sizes[dim] <= 1 or x.strides[dim] == 1


def with_neighbours(s: Selection, x: Operand, dim: int) -> Operand:
    """The operand, or a dense copy if its elements along the last dimension, `dim`, are not neighbours in memory."""
    return x if has_neighbours(x, dim) else dense(s, x)


@contextmanager
def stored_in(s: Selection, out: Operand, fits: bool) -> Iterator[Operand]:
    """Gives the operand, or if it does not fit a dense one, which is copied to it behind the calls of the block."""
    result = out if fits else s.new(out.sizes)
    yield result
    if not fits:
        data.emit_copy(s, out, result)


@selects("gemm")
def product(s: Selection, launch: Launch) -> None:
    out, a, w = operands_of(launch, 2)
    c = (*launch.inputs, None)[2]
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
    if not has_neighbours(out, 2):
        with stored_in(s, out, False) as made:
            product(s, replace(launch, outputs=(made,)))
        return
    a = with_neighbours(s, a, 2)
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
    group = gemm_plan.pairs_of(s.groups, tiles(k), tiles(n))
    last = None if additions else activation
    variant, words = gemm_plan.plan(matrices, layout, bias is not None, last, alpha, group=group)
    if layout == "packed":
        variant, words = gemm_plan.place_tiles(variant, words, beside)
    variant = replace(variant, residual=residual is not None)
    places = {"a": a, "w": w_address, "w_base": w_address, "c": out, "residual": residual}
    places["bias"] = None if bias is None else bias_address(s, bias, n)
    s.calls(gemm.build, [(variant, words, {})], places)
    if additions:
        emit_additions(s, out, additions, activation)


def emit_additions(s: Selection, out: Operand, additions: list[tuple[Operand, float]], activation: str | None) -> None:
    """out = activation(out + the sum of each operand times its factor)."""
    chain, value = Chain(1 + len(additions)), 0
    for i, (_, factor) in enumerate(additions, 1):
        value = chain.add("add", value, i if factor == 1 else chain.add("mul", i, factor))
    if activation is not None:
        chain.add(activation, value)
    pointwise.emit(s, out, [out, *(operand for operand, _ in additions)], tuple(chain.steps))


def bias_address(s: Selection, bias: Operand, n: int) -> Address:
    if s.is_constant(bias):
        return Address(s.constant(pack_bias(s.tensor(bias).reshape(-1)[:n])))
    # Whole rows are read; what lies behind the bias meets no element of the result.
    return s.address(with_neighbours(s, bias, -1))
