# SPDX-License-Identifier: BSD-3-Clause
"""Statements for products and attention."""

from __future__ import annotations

import torch

from .generator import Builder, template


def _weight(g: Builder, x: str, n: int, last: bool = True) -> str:
    value = g.value(x)
    k = value.shape[-1]
    return g.parameter((n, k) if last else (k, n), value.dtype, max(k, 1) ** -0.5)


@template("linear", "linear act", "x @ w", "x @ w.t", "linear twice", "gated", weight=1.6)
def linear(g: Builder) -> str:
    x = g.floats(least=1)
    n = g.rng.choice([1, 2, 3, 4, 8, 16, 24, 32, 32, 33, 64])  # 32 and 64 can be packed
    w = _weight(g, x, n, g.name != "x @ w")
    if g.name.startswith("x @ w"):
        return f"{x} @ {w}{g.name.removeprefix('x @ w').replace('.t', '.t()')}"
    if g.name == "gated":
        return f"F.silu(F.linear({x}, {w})) * F.linear({x}, {w} * 0.5)"
    bias = g.parameter((n,), g.value(x).dtype) if g.chance(0.6) else "None"
    if g.name == "linear act":
        act = g.rng.choice(["F.gelu", "F.relu", "torch.tanh", "F.silu", "torch.sigmoid"])
        return f"{act}(F.linear({x}, {w}, {bias}))"
    if g.name == "linear twice":
        return f"F.linear(F.relu(F.linear({x}, {w}, {bias})), {g.parameter((4, n), g.value(x).dtype, 0.3)})"
    return f"F.linear({x}, {w}, {bias})"


@template("gram", "matmul", "matmul broadcast", "bmm", "einsum ij", "einsum dot", "einsum bij,jk", weight=1.0)
def product(g: Builder) -> str:
    x = g.floats(least=2)
    if g.name == "gram":
        return g.rng.choice(["{x}.mT @ {x}", "{x} @ {x}.mT", "torch.matmul({x}, {x}.transpose(-1, -2))"]).format(x=x)
    shape, dtype = tuple(g.value(x).shape), g.value(x).dtype
    n = g.rng.choice([1, 2, 3, 5, 8, 32])
    if g.name == "matmul":
        return f"torch.matmul({x}, {g.new_input((*shape[:-2], shape[-1], n), dtype)})"
    if g.name == "matmul broadcast":
        return f"torch.matmul({x}, {g.new_input((shape[-1], n), dtype)})"
    if g.name == "einsum ij":
        return f"torch.einsum('...k,nk->...n', {x}, {g.parameter((n, shape[-1]), dtype)})"
    x = g.floats(3)
    shape, dtype = tuple(g.value(x).shape), g.value(x).dtype
    if g.name == "bmm":
        return f"torch.bmm({x}, {g.new_input((shape[0], shape[2], n), dtype)})"
    if g.name == "einsum dot":
        return f"torch.einsum('bij,bij->b', {x}, {g.same(x)})"
    return f"torch.einsum('bij,jk->bki', {x}, {g.parameter((shape[2], n), dtype)})"


OTHERS = ("addmm", "baddbmm", "mv", "addmv", "dot", "vdot", "outer", "addr", "addbmm", "bilinear", "cdist", "pdist")


@template(*OTHERS, weight=0.4)
def other_products(g: Builder) -> str:
    rank = 1 if g.name in ("dot", "vdot", "outer", "addr") else 3 if "bmm" in g.name else 2
    x = g.floats(rank)
    *_, m, k = (1, *g.value(x).shape)
    dtype = g.value(x).dtype
    if rank == 1:
        y = g.same(x)
        return f"torch.{g.name}({g.new_input((k, k), dtype) + ', ' if g.name == 'addr' else ''}{x}, {y})"
    if rank == 3:
        other = g.new_input((g.value(x).shape[0], k, 4), dtype)
        shape, beta = ((m, 4), "") if g.name == "addbmm" else ((1, 1, 4), ", beta=0.5")
        return f"torch.{g.name}({g.new_input(shape, dtype)}, {x}, {other}{beta})"
    if g.name == "addmm":
        n = g.rng.choice([1, 3, 8])
        c = g.new_input(g.rng.choice([(m, n), (n,), (1,)]), dtype)
        return f"torch.addmm({c}, {x}, {g.new_input((k, n), dtype)}, beta={g.rng.choice(['1', '0.5', '0'])})"
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    points = x if m else f"{x}.new_ones((2, {k}))"  # the CPU's gradient crashes where there are none
    forms = {
        "pdist": lambda: f"F.pdist({points}.float(), {g.rng.choice([1.0, 2.0])})",
        "cdist": lambda: f"torch.cdist({x}.to({wide}), {g.new_input((3, k), wide)}, p={g.rng.choice([1.0, 2.0])})",
        "bilinear": lambda: f"F.bilinear({x}, {x}, {g.parameter((2, k, k), dtype, 0.3)})",
        "mv": lambda: f"torch.mv({x}, {g.new_input((k,), dtype)})",
        "addmv": lambda: f"torch.addmv({g.new_input((m,), dtype)}, {x}, {g.new_input((k,), dtype)}, beta=0.5, alpha=2)",
    }
    return forms[g.name]()


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


ATTENTION = (
    "F.scaled_dot_product_attention({x}, {x}, {x})",
    "F.scaled_dot_product_attention({x}, {x}, {x}, is_causal=True)",
    "F.scaled_dot_product_attention({x}, {x}, {x}, scale=2.0)",
    "F.scaled_dot_product_attention({x}, {x}.flip(-2), {x} * 2, {mask})",
    "F.scaled_dot_product_attention({x}, {x}[..., :2, :], {x}[..., :2, :])",
    "F.scaled_dot_product_attention({x}, {x}, {x}, {bools})",
    "torch.softmax({x} @ {x}.mT + {mask}, -1) @ {x}",
    "(({x} @ {x}.transpose(-2, -1)) / 2.0).softmax(-1) @ {x}",
    "torch.softmax({x} @ {x}.mT * 0.5, -1) @ {x}",
    "torch.softmax(({x} @ {x}.mT).masked_fill({bools}, float('-inf')), -1) @ {x}",
)


@template(*ATTENTION, weight=0.45)
def attention(g: Builder) -> str:
    x = g.floats(4 if g.chance(0.8) else 3)
    length, dtype = g.value(x).shape[-2], g.value(x).dtype
    mask = g.new_input((length, length), dtype) if "{mask}" in g.name else ""
    bools = ""
    if "{bools}" in g.name:
        bools = g.new_input((length, length), torch.bool, f"torch.ones({length}, {length}, dtype=torch.bool).tril()")
    return g.name.format(x=x, mask=mask, bools=f"~{bools}" if "masked_fill" in g.name else bools)


@template("attention heads", weight=0.3)
def attention_heads(g: Builder) -> str:
    """Grouped queries: more heads of queries than of keys."""
    dtype = g.rng.choice([torch.float32, torch.bfloat16])
    q, k = g.new_input((2, 4, 5, 8), dtype), g.new_input((2, 2, 5, 8), dtype)
    return f"F.scaled_dot_product_attention({q}, {k}, {k}, is_causal={g.chance(0.5)}, enable_gqa=True)"


@template("rotary", weight=0.3)
def rotary(g: Builder) -> str:
    x = g.floats(least=2)
    if g.value(x).shape[-1] % 2 or not g.value(x).shape[-1]:
        x = g.new_input((2, 3, 5, 8), g.dtype)
    half = g.value(x).shape[-1] // 2
    cos = g.buffer(g.value(x).shape[-2:], g.value(x).dtype)
    return f"{x} * {cos} + torch.cat([-{x}[..., {half}:], {x}[..., :{half}]], -1) * {cos}"
