# SPDX-License-Identifier: BSD-3-Clause
"""Statements for products and attention."""

from __future__ import annotations

import torch

from .generator import Builder, template
from .statements import Statements
from .texts import NESTED, PLAIN, each, shared, texts, written

texts(
    *each("{x} @ {op}", "{x}", "{y}"),
    "{x} + {x}.mT",
    *each("{x}.diagonal(0, -2, -1){op}", "", ".sum(-1)"),
    "({x} @ {x}).flatten().view({x}.shape[-1], -1)",
    "torch.baddbmm({x}.reshape(-1, {x}.shape[-1], {x}.shape[-1]), *[{y}.reshape(-1, *{x}.shape[-2:])] * 2)",
    "{x} * torch.ones({x}.shape[-1], {x}.shape[-1], device={x}.device, dtype={x}.dtype).tril()",
    "{x} + torch.eye({x}.shape[-1], device={x}.device, dtype={x}.dtype)",
    "{x}.masked_fill(torch.ones({x}.shape[-2:], device={x}.device).triu(1) > 0, float('-inf')).softmax(-1)",
    "torch.diag_embed({x}.diagonal(0, -2, -1))",
    "{x}[..., 0, :] * {x}[..., 0]",
    "{x}.flatten(-2).unflatten(-1, (-1, {x}.shape[-1]))",
    "{x}.flatten(-2)[..., ::{x}.shape[-1] + 1]",
    "({x}.reshape(2, -1) + 1).view({x}.shape)",
    weight=0.5,
    dtypes="squares",
    least=2,
    tables=NESTED,
)
LINEAR = "F.linear({x}, {weight}, {bias})"
texts(
    LINEAR,
    *(f"{function}({LINEAR})" for function in ("F.gelu", "F.relu", "torch.tanh", "F.silu", "torch.sigmoid")),
    f"F.linear(F.relu({LINEAR}), {{second_weight}})",
    "F.silu(F.linear({x}, {weight})) * F.linear({x}, {weight} * 0.5)",
    *each("{x} @ {op}", "{weight}.t()", "{weight_t}"),
    weight=1.0,
    tables=PLAIN,
)
texts(
    *each("torch.matmul({x}, {op})", "{right}", "{matrix}"),
    "torch.einsum('...k,nk->...n', {x}, {weight})",
    weight=1.0,
    least=2,
    tables=PLAIN,
)
texts(
    "torch.bmm({x}, {right})",
    "torch.einsum('bij,jk->bki', {x}, {weight_t})",
    "torch.baddbmm({summand}, {x}, {right}, beta=0.5)",
    "torch.addbmm({summand}, {x}, {right})",
    weight=0.6,
    rank=3,
    tables=PLAIN,
)
texts(
    *each("torch.addmm({summand}, {x}, {matrix}, beta={op})", "1", "0.5", "0"),
    "torch.mv({x}, {vector})",
    "torch.addmv({column}, {x}, {vector}, beta=0.5, alpha=2)",
    "F.bilinear({x}, {x}, {bilinear})",
    *each("torch.cdist({x}.to({wide}), {others}.to({wide}), p={op})", "1.0", "2.0"),
    *each("F.pdist({points}.float(), {op})", "1.0", "2.0"),
    weight=0.3,
    rank=2,
    tables=PLAIN,
)
texts(
    *each("torch.{op}({x}, {y})", "dot", "vdot", "outer"),
    "torch.addr({square}, {x}, {y})",
    rank=1,
    tables=PLAIN,
)
texts(
    "{x} @ {x}.mT",
    "{x}.mT @ {x}",
    "{x} @ {y}.mT",
    "F.linear({x}, {x}[0])",
    *each("torch.einsum('{op}', {x}, {y})", "...ij,...kj->...ik", "...ij,...ij->...i"),
    "torch.outer({x}.flatten()[:8], {y}.flatten()[:{s}])",
    "torch.kron({x}, {y}[:2])",
    "F.linear({x}.reshape(-1, 2), {w3})",
    "F.linear({x}.unflatten(-1, (-1, 2)), {w3}).flatten(-2)",
    "{x} @ {x}.new_ones({x}.shape[-1], {s})",
    "torch.cdist({x}, {y})",
    *each("F.scaled_dot_product_attention({x}, {y}, {x}{op})", "", ", is_causal=True"),
    least=2,
)
texts("F.linear({x}, {y})", rank=2)
texts("torch.einsum('bij,bij->b', {x}, {y})", rank=3)
ATTENTION = (
    *each("F.scaled_dot_product_attention({x}, {x}, {x}{op})", "", ", is_causal=True", ", scale=2.0"),
    "F.scaled_dot_product_attention({x}, {x}[..., :2, :], {x}[..., :2, :])",
    "(({x} @ {x}.transpose(-2, -1)) / 2.0).softmax(-1) @ {x}",
    "torch.softmax({x} @ {x}.mT * 0.5, -1) @ {x}",
)
MASKED_ATTENTION = (
    "F.scaled_dot_product_attention({x}, {x}.flip(-2), {x} * 2, {scores})",
    "F.scaled_dot_product_attention({x}, {x}, {x}, {causal})",
    "torch.softmax({x} @ {x}.mT + {scores}, -1) @ {x}",
    "torch.softmax(({x} @ {x}.mT).masked_fill(~{causal}, float('-inf')), -1) @ {x}",
)


@shared(*ATTENTION, weight=0.4)
@shared(*MASKED_ATTENTION, weight=0.4, tables=PLAIN)
def attention(g: Statements) -> str:
    return written(g, g.operand("floats", rank=4 if g.chance(0.8) else 3))


@template("integer mm", weight=0.2)
def integer_product(g: Builder) -> str:
    x = g.new_input((3, 4), torch.int64)
    return f"torch.mm({x}, {x}.t())"


@template("grouped_mm", weight=0.1)
def grouped(g: Builder) -> str:
    if g.dynamic:
        raise LookupError("the offsets are constants, and too large for fewer rows")
    x = g.new_input((8, 16), torch.bfloat16)
    weight = g.parameter((2, 16, 8), torch.bfloat16)
    return f"torch._grouped_mm({x}, {weight}, offs=torch.tensor([3, 8], dtype=torch.int32, device={x}.device))"


@template("attention heads", weight=0.3)
def attention_heads(g: Builder) -> str:
    """Grouped queries: more heads of queries than of keys."""
    dtype = g.rng.choice([torch.float32, torch.bfloat16])
    q, k = g.new_input((2, 4, 5, 8), dtype), g.new_input((2, 2, 5, 8), dtype)
    return f"F.scaled_dot_product_attention({q}, {k}, {k}, is_causal={g.chance(0.5)}, enable_gqa=True)"


@template("rotary", weight=0.3)
def rotary(g: Builder) -> str:
    x = g.operand("floats", 2)
    if g.value(x).shape[-1] % 2 or not g.value(x).shape[-1]:
        x = g.new_input((2, 3, 5, 8), g.dtype)
    half = g.value(x).shape[-1] // 2
    cos = g.buffer(g.value(x).shape[-2:], g.value(x).dtype)
    return f"{x} * {cos} + torch.cat([-{x}[..., {half}:], {x}[..., :{half}]], -1) * {cos}"
