# SPDX-License-Identifier: BSD-3-Clause
"""Attention."""

from __future__ import annotations

from dataclasses import replace

import torch

from ....program.ir import Launch, Operand, contiguous_strides
from ....program.layouts import same_layout
from ..image import Address
from ..kernels import attention as heads
from ..kernels.pointwise import Unsupported
from ..selection import Selection, selects
from .matrix import dense


@selects("attention")
def attention(s: Selection, launch: Launch) -> None:
    out, logsumexp = (*launch.outputs, None)[:2]
    q, k, v, mask = (*launch.inputs, None)[:4]
    assert out is not None and isinstance(q, Operand) and isinstance(k, Operand) and isinstance(v, Operand)
    x = logsumexp
    if x is not None and not same_layout(x.sizes, x.strides, contiguous_strides(x.sizes)):
        raise Unsupported("logarithms of attention's sums that are not contiguous")
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
    planned = heads.plan(sizes, launch.parameter("scale"), kind, causal, s.groups, logsumexp is not None)
    places: dict[str, Operand | Address | None]
    places = {"q": q, "k": k, "v": v, "o": out, "heads": table, "sums": logsumexp, "mask": address}
    s.calls(heads.build, planned, places)


def _spread_rows(s: Selection, mask: Operand) -> Operand:
    """Copy the mask so that its rows are contiguous. Other dimensions that broadcast keep their stride of 0."""
    sizes = tuple(
        1 if stride == 0 and d < 3 else size for d, (size, stride) in enumerate(zip(mask.sizes, mask.strides))
    )
    copied = dense(s, replace(mask, sizes=sizes))
    strides = tuple(0 if size == 1 else stride for size, stride in zip(sizes, copied.strides))
    return replace(copied, sizes=mask.sizes, strides=strides)
