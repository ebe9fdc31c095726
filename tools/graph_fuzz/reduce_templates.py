# SPDX-License-Identifier: BSD-3-Clause
"""Statements for reductions, scans, sorting, normalisation and losses."""

from __future__ import annotations

from .texts import PLAIN, each, texts

texts(
    *each("torch.{op}({x}, {dims}, {keepdim})", "mean", "amax", "amin", "var", "std", "logsumexp", "nansum"),
    *each("torch.{op}({x}, {dims}, correction=0, {keepdim})", "var", "std"),
    "torch.sum({x}, {dims}, dtype=torch.float32, {keepdim})",
    weight=0.8,
)
texts(
    *each("torch.{op}({x}, {dims}, {keepdim})", "sum", "any", "all"),
    "torch.count_nonzero({x}, {dims})",
    weight=0.8,
    dtypes="all",
)
texts(
    *each("{x}.{op}()", "sum", "mean", "max", "min", "amax", "prod", "argmax", "argmin", "norm"),
    *each("torch.{op}({x})", "aminmax", "var_mean", "median"),
    *each("torch.linalg.vector_norm({x}, {op})", "1", "3, 0", "float('inf'), -1"),
    "torch.logsumexp({x}, 0)",
    "torch.std_mean({x}, correction=0)",
    "(({x} > 0).any(), ({x} > -9).all())",
    "{x}.flatten().dot({y}.flatten())",
    *each("({x} > 0).{op}({d})", "any", "all", "sum"),
    "({x} > 0).any({d}, keepdim=True)",
    "{x}.sum({d}) / {n}",
    "{x}.norm(dim={d})",
    *each("torch.{op}({x}, {d})", "prod", "argmax", "max", "min", "cumsum", "cummax", "logcumsumexp"),
    *each("torch.{op}({x}, {d})", "median", "sort", "argsort", "softmax", "log_softmax"),
    "torch.prod({x} * 0.5, {d})",
    "torch.argmin({x}, {d}, keepdim=True)",
    "torch.var_mean({x}, {d}, correction=0)",
    "torch.std_mean({x}, {d}, correction=0, keepdim=True)",
    "torch.aminmax({x}, dim={d})",
    "torch.cumprod({x}.tanh(), {d})",
    "torch.cummin({x}, {d})[0]",
    "torch.sort({x}, dim={d}, descending=True, stable=True)",
    *each("torch.topk({x}, {op})", "1, {d}", "{n} // 2, {d}", "2, {d}, largest=False"),
    "torch.kthvalue({x}, 1, {d})",
    "F.softmin({x}, {d})",
    "torch.softmax({x}, {d}, dtype=torch.float32)",
    "F.normalize({x}, dim={d})",
    "torch.diff({x}, dim={d})",
    "{x}[1:] - {x}[:-1]",
    "{x}[::2].sum(0) + {x}[1::2].sum(0)",
    "torch.renorm({x}, 2, {d}, 1.0)",
    "F.cosine_similarity({x}, {x} * 2 + 1, {d})",
    *each("F.{op}({x}, {x}.shape[-{k}:])", "layer_norm", "rms_norm"),
    "{x} * torch.rsqrt({x}.pow(2).mean(-1, keepdim=True) + 1e-6)",
    "({x} - {x}.mean({d}, keepdim=True)) / ({x}.var({d}, keepdim=True, correction=0) + 1e-3).sqrt()",
)
texts("F.group_norm({x}, 1)", "F.batch_norm({x}, None, None, training=True)", least=3)
texts(
    *each("F.{op}({x}, {y})", "mse_loss", "smooth_l1_loss"),
    "F.l1_loss({x}, {y}, reduction='none')",
    "F.huber_loss({x}, {y}, delta=0.5)",
    "F.binary_cross_entropy_with_logits({x}, {y}.sigmoid())",
    "F.kl_div({x}.log_softmax(-1), {y}.softmax(-1), reduction='sum')",
    "F.soft_margin_loss({x}, {y}.sign())",
    "F.poisson_nll_loss({x}.clamp(-2, 2), {y}.abs())",
    weight=0.2,
)
texts(
    "torch.sum({x}, {d})",
    "{x}.max({d})",
    "{x}.cumsum({d})",
    "torch.sort({x}, dim={d}, stable=True)",
    "({x} > 1).sum({d})",
    dtypes="integers",
    least=0,
    tables=PLAIN,
)


texts(
    "F.layer_norm({x}, {tail}, {weight_tail}, {bias_tail})",
    "torch.native_layer_norm({x}, {tail}, {weight_tail}, {bias_tail}, 1e-5)",
    *each("F.rms_norm({x}, {tail}, {weight_tail}{op})", "", ", 1e-5"),
    weight=1.0,
    tables=PLAIN,
)
texts(
    "F.group_norm({x}, {groups}, {gain}, {offset})",
    "F.batch_norm({x}, None, None, {gain}, {offset}, training=True)",
    "F.batch_norm({x}, {mean}, {variance}.abs() + 0.5, {gain}, {offset})",
    weight=0.9,
    least=2,
    tables=PLAIN,
)
texts("F.instance_norm({x}, weight={gain}, bias={offset})", weight=0.9, least=3, tables=PLAIN)
texts(
    "F.nll_loss(torch.log_softmax({x}, 1), {classes})",
    "F.cross_entropy({x}, {classes})",
    "F.cross_entropy({x}, {classes}, label_smoothing=0.1)",
    weight=0.2,
    rank=2,
    tables=PLAIN,
)
texts(
    "torch.histc({x}, 5, -2, 2)",
    "torch.bincount(({x}.flatten().clamp(0, 5)).long(), minlength=6)[:6]",
    weight=0.15,
    least=0,
    tables=PLAIN,
)
