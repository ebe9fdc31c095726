# SPDX-License-Identifier: BSD-3-Clause
"""Expected results of reductions over ranks, and the list of reductions (the table of docs/guides/distributed.md)."""

from __future__ import annotations

import functools
import re

import torch
import torch.distributed as dist
from distributed_suite import ROOT


def expected_reduction(op: str, inputs: list[torch.Tensor]) -> torch.Tensor:
    dtype = inputs[0].dtype
    if dtype == torch.bool:
        stack = torch.stack(inputs)
        if op == "BXOR":
            return stack.sum(0) % 2 == 1
        return stack.any(0) if op in ("SUM", "MAX", "BOR") else stack.all(0)
    wide = torch.complex128 if dtype.is_complex else torch.float64 if dtype.is_floating_point else torch.int64
    values = [t.to(wide) for t in inputs]
    total = sum(values[1:], values[0])
    if op == "AVG":
        mean = total / len(values) if wide != torch.int64 else torch.div(total, len(values), rounding_mode="trunc")
        return mean.to(dtype)
    fold = {
        "SUM": torch.add, "PRODUCT": torch.mul, "MIN": torch.minimum, "MAX": torch.maximum,
        "BAND": torch.bitwise_and, "BOR": torch.bitwise_or, "BXOR": torch.bitwise_xor,
    }  # fmt: skip
    if op == "PREMUL_SUM":
        return (total * 0.5).to(dtype)
    result = values[0]
    for value in values[1:]:
        result = fold[op](result, value)
    return result.to(dtype)


@functools.cache
def reduce_table() -> dict[tuple[str, torch.dtype], str]:
    """The table of docs/guides/distributed.md: how an operator reduces a dtype, or "refused"."""
    section = (ROOT / "docs/guides/distributed.md").read_text().partition("## Reductions")[2]
    rows = re.findall(r"^\| (.+) \|$", section, re.M)
    head, _, *body = (row.split(" | ") for row in rows)
    return {
        (op, getattr(torch, dtype)): cell
        for row in body
        for dtype in row[0].split(", ")
        for ops, cell in zip(head[1:], row[1:], strict=True)
        for op in ops.split(", ")
    }


def reduce_op(op: str):
    return dist._make_nccl_premul_sum(0.5) if op == "PREMUL_SUM" else getattr(dist.ReduceOp, op)


def raw(t: torch.Tensor) -> torch.Tensor:
    """The bytes, on the CPU: for dtypes that assertEqual cannot subtract."""
    return t.cpu().contiguous().view(torch.uint8)
