# SPDX-License-Identifier: BSD-3-Clause
"""Products by groups of rows, whose ends are data.

The array computes the product of all rows with every group's matrix, and each row of the result is taken from the
product of its group: there is no branch on data, and the result of a row depends on no other group. All matrices are
loaded in any case; for few rows, their transfers take longer than the products.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from torch_atalla.driver import c_abi

from ....program.ir import Launch
from ..kernels.pointwise import Chain, Unsupported
from ..scalar_core.routine import Context
from ..scalar_core.routine import emit as emit_routine
from ..selection import Selection, operands_of, selects
from . import pointwise
from .matrix import product, with_neighbours

CHUNK = 4  # groups of one batched product, and of one selection of rows


def group_members(c: Context) -> None:
    """Ones in the rows of each group. Faults for ends that decrease or are beyond the rows."""
    core = c.core
    (members,), (ends,) = c.outputs, c.inputs
    begin = core.variable(0)
    with ends.over([0], ends, members) as (place, group):
        end = place.load()
        core.fault_unless(~((end < begin) | (end > members.size(1))), c_abi.ATALLA_ISA_FAULT_ELEMENT)
        with core.range(end - begin) as row:
            group[begin + row].store(core.constant(1, "b"))
        begin.set(end)


@selects("gemm_grouped")
def grouped_product(s: Selection, launch: Launch) -> None:
    """out [m, n] = a [m, k] @ w [g, k, n] with g by row; 0 behind the last group."""
    out, a, w, ends = operands_of(launch, 3)
    if len(w.sizes) != 3 or len(out.sizes) != 2:
        raise Unsupported("groups of columns or of the contracted dimension")
    groups, k, n = w.sizes
    m = a.sizes[0]
    a = with_neighbours(s, a, 1)
    members = s.new((groups, m), dtype=torch.bool)
    pointwise.emit(s, replace(members, sizes=(groups * m,), strides=(1,)), [], (("const", 0.0),))
    emit_routine(s, replace(launch, outputs=(members,), inputs=(ends,)), group_members)
    for first in range(0, groups, CHUNK):
        count = min(CHUNK, groups - first)
        results = s.new((count, m, n))
        rows = replace(a, sizes=(count, m, k), strides=(0, *a.strides))
        matrices = replace(w, offset=w.offset + first * w.strides[0] * w.dtype.itemsize, sizes=(count, k, n))
        batched = Launch("gemm", (results,), (rows, matrices, None), launch.compute_dtype, node=launch.node)
        product(s, batched.with_parameters(alpha=1.0, beta=0.0, activation="none"))
        given = [replace(results, offset=2 * g * m * n, sizes=(m, n), strides=(n, 1)) for g in range(count)]
        given += [replace(members, offset=(first + g) * m, sizes=(m, n), strides=(1, 0)) for g in range(count)]
        given += [out] if first else []
        chain, other = Chain(len(given)), (2 * count if first else 0.0)
        for g in range(count):
            other = chain.add("where", count + g, g, other)
        pointwise.emit(s, out, given, tuple(chain.steps))
