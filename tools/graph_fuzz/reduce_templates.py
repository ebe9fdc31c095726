# SPDX-License-Identifier: BSD-3-Clause
"""Statements for reductions, scans, sorting, normalisation and losses."""

from __future__ import annotations

import torch

from .generator import Builder, template

OVER_DIMS = ("sum", "mean", "amax", "amin", "var", "std", "logsumexp", "nansum", "any", "all", "count_nonzero")


@template(*(f"torch.{name} dims" for name in OVER_DIMS), weight=1.0)
def over_dims(g: Builder) -> str:
    name = g.name.removeprefix("torch.").removesuffix(" dims")
    x = g.floats(least=1) if name not in ("any", "all", "count_nonzero", "sum") else g.tensor(lambda v: v.ndim > 0)
    keepdim = f", keepdim={g.chance(0.5)}" if name != "count_nonzero" else ""
    extra = ", correction=0" if name in ("var", "std") and g.chance(0.7) else ""
    if name == "sum" and g.chance(0.15):
        extra = ", dtype=torch.float32"
    return f"torch.{name}({x}, {g.dims(x)}{extra}{keepdim})"


WHOLE = (
    "{x}.sum()",
    "{x}.mean()",
    "{x}.max()",
    "{x}.min()",
    "{x}.amax()",
    "{x}.prod()",
    "{x}.argmax()",
    "{x}.argmin()",
    "{x}.norm()",
    "torch.linalg.vector_norm({x}, 1)",
    "torch.linalg.vector_norm({x}, 3, 0)",
    "torch.linalg.vector_norm({x}, float('inf'), -1)",
    "torch.logsumexp({x}, 0)",
    "torch.aminmax({x})",
    "torch.var_mean({x})",
    "torch.std_mean({x}, correction=0)",
    "torch.median({x})",
    "(({x} > 0).any(), ({x} > -9).all())",
)
ALONG_DIM = (
    "torch.prod({x} * 0.5, {d})",
    "torch.argmax({x}, {d})",
    "torch.argmin({x}, {d}, keepdim=True)",
    "torch.max({x}, {d})",
    "torch.min({x}, {d})",
    "torch.var_mean({x}, {d}, correction=0)",
    "torch.std_mean({x}, {d}, correction=0, keepdim=True)",
    "torch.aminmax({x}, dim={d})",
    "torch.cumsum({x}, {d})",
    "torch.cumprod({x}.tanh(), {d})",
    "torch.cummax({x}, {d})",
    "torch.cummin({x}, {d})[0]",
    "torch.logcumsumexp({x}, {d})",
    "torch.sort({x}, {d})",
    "torch.sort({x}, dim={d}, descending=True, stable=True)",
    "torch.argsort({x}, {d})",
    "torch.topk({x}, 1, {d})",
    "torch.topk({x}, 2, {d}, largest=False)",
    "torch.kthvalue({x}, 1, {d})",
    "torch.median({x}, {d})",
    "torch.softmax({x}, {d})",
    "torch.log_softmax({x}, {d})",
    "F.softmin({x}, {d})",
    "torch.softmax({x}, {d}, dtype=torch.float32)",
    "F.normalize({x}, dim={d})",
    "torch.diff({x}, dim={d})",
    "torch.renorm({x}, 2, {d}, 1.0)",
    "F.cosine_similarity({x}, {x} * 2 + 1, {d})",
    "torch.sum({x}, {d})",
    "torch.mean({x}, {d}, keepdim=True)",
    "torch.all({x} > 0, {d})",
    "torch.any({x} > 0, {d}, keepdim=True)",
)


@template(*WHOLE, *ALONG_DIM, weight=0.5)
def reduction(g: Builder) -> str:
    x = g.floats(least=1)
    return g.name.format(x=x, d=g.rng.randrange(-g.value(x).ndim, g.value(x).ndim))


OF_INTEGERS = {
    "integer sum": "torch.sum({x}, {d})",
    "integer extremes": "torch.max({x}, {d})",
    "integer cumsum": "torch.cumsum({x}, {d})",
    "integer sort": "torch.sort({x}, {d}, stable=True)",
    "bool reduce": "({x} > 1).sum({d})",
}


@template(*OF_INTEGERS, weight=0.4)
def integer_reduction(g: Builder) -> str:
    x = g.integers()
    return OF_INTEGERS[g.name].format(x=x, d=g.dim(x))


@template("layer_norm", "rms_norm", "native_layer_norm", weight=1.2)
def row_norm(g: Builder) -> str:
    x = g.floats(least=1)
    shape, dtype = tuple(g.value(x).shape), g.value(x).dtype
    dims = shape[-g.rng.randint(1, min(2, len(shape))) :]
    weight = g.parameter(dims, dtype) if g.chance(0.7) else "None"
    if g.name == "rms_norm":
        return f"F.rms_norm({x}, {dims}, {weight}{g.rng.choice(['', ', 1e-5'])})"
    bias = g.parameter(dims, dtype) if g.chance(0.6) else "None"
    if g.name == "native_layer_norm":
        return f"torch.native_layer_norm({x}, {dims}, {weight}, {bias}, 1e-5)"
    return f"F.layer_norm({x}, {dims}, {weight}, {bias})"


@template("rms_norm by hand", weight=0.4)
def rms_norm_by_hand(g: Builder) -> str:
    x = g.floats(least=1)
    return f"{x} * torch.rsqrt({x}.pow(2).mean(-1, keepdim=True) + 1e-6)"


@template("batch_norm", "batch_norm training", "instance_norm", "group_norm", weight=0.9)
def channel_norm(g: Builder) -> str:
    x = g.floats(least=3 if g.name == "instance_norm" else 2)
    c, dtype = g.value(x).shape[1], g.value(x).dtype
    weight, bias = (g.parameter((c,), dtype) if g.chance(0.7) else "None" for _ in range(2))
    if g.name == "group_norm":
        groups = g.rng.choice([k for k in range(1, c + 1) if c % k == 0])
        return f"F.group_norm({x}, {groups}, {weight}, {bias})"
    if g.name == "instance_norm":
        return f"F.instance_norm({x}, weight={weight}, bias={bias})"
    if g.name == "batch_norm training":
        return f"F.batch_norm({x}, None, None, {weight}, {bias}, training=True)"
    mean, variance = g.buffer((c,), dtype), g.buffer((c,), dtype)
    return f"F.batch_norm({x}, {mean}, {variance}.abs() + 0.5, {weight}, {bias})"


LOSSES = (
    "F.mse_loss({x}, {y})",
    "F.l1_loss({x}, {y}, reduction='none')",
    "F.smooth_l1_loss({x}, {y})",
    "F.huber_loss({x}, {y}, delta=0.5)",
    "F.binary_cross_entropy_with_logits({x}, {y}.sigmoid())",
    "F.kl_div({x}.log_softmax(-1), {y}.softmax(-1), reduction='sum')",
    "F.soft_margin_loss({x}, {y}.sign())",
    "F.poisson_nll_loss({x}.clamp(-2, 2), {y}.abs())",
)


@template(*LOSSES, weight=0.2)
def loss(g: Builder) -> str:
    x = g.floats(least=1)
    return g.name.format(x=x, y=g.same(x))


@template("cross_entropy", "nll_loss", weight=0.3)
def classification(g: Builder) -> str:
    x = g.floats(2)
    n, c = g.value(x).shape
    target = g.indices(c, (n,))
    if g.name == "nll_loss":
        return f"F.nll_loss(torch.log_softmax({x}, 1), {target})"
    return f"F.cross_entropy({x}, {target}{g.rng.choice(['', ', label_smoothing=0.1'])})"


@template("histc", "unique counts", weight=0.15)
def histogram(g: Builder) -> str:
    x = g.tensor(lambda v: v.dtype == torch.float32)
    if g.name == "histc":
        return f"torch.histc({x}, 5, -2, 2)"
    return f"torch.bincount(({x}.flatten().clamp(0, 5)).long(), minlength=6)[:6]"
