# SPDX-License-Identifier: BSD-3-Clause
"""Statements whose sizes are products, sums, differences and quotients of other sizes."""

from __future__ import annotations

from .builder import NestedBuilder, template

# {x}: any floating-point tensor; {r}: its rank; {d}, {e}: its dimensions; {n}: size of dimension d; {s}: the size of a
# dimension of any tensor; {k}: a small number; {y}: a tensor of the sizes of x; {ones}: a 1 per further dimension.
SLICES = (
    "{x}[1:]",
    "{x}[:-1]",
    "{x}[{k}:]",
    "{x}[..., {k}:]",
    "{x}[..., :-{k}]",
    "{x}[..., 1:-1]",
    "{x}[::2]",
    "{x}[1::2]",
    "{x}[..., ::2]",
    "{x}[..., 1::3]",
    "{x}[:{s}]",
    "{x}[{s}:]",
    "{x}[-{s}:]",
    "{x}[..., :{s}]",
    "{x}[..., :{s} // 2]",
    "{x}[..., -{k}:]",
    "{x}.narrow({d}, 0, {s})",
    "{x}.narrow({d}, 1, {n} - 1)",
    "{x}.narrow({d}, {n} // 2, {n} - {n} // 2)",
    "{x}.select({d}, -1)",
    "{x}.select({d}, {n} // 2)",
    "{x}.chunk(2, {d})",
    "{x}.chunk(3, {d})",
    "{x}.chunk(2, {d})[-1]",
    "{x}.split({n} // 2, {d})[0]",
    "{x}.split([{n} // 2, {n} - {n} // 2], {d})",
    "{x}.split([1, {n} - 1], {d})",
    "{x}.tensor_split(2, {d})",
    "{x}.tensor_split([1], {d})",
    "torch.diff({x}, dim={d})",
    "{x}[1:] - {x}[:-1]",
    "{x}[::2].sum(0) + {x}[1::2].sum(0)",
)
SHAPES = (
    "{x}.flatten()",
    "{x}.flatten(0, 1)",
    "{x}.flatten(-2)",
    "{x}.reshape(-1)",
    "{x}.reshape({x}.shape[0], -1)",
    "{x}.reshape(-1, {x}.shape[-1])",
    "{x}.reshape(-1, 2)",
    "{x}.reshape(2, -1)",
    "{x}.reshape(-1, {s})",
    "{x}.reshape({n}, -1)",
    "{x}.reshape({x}.shape[-1], -1)",
    "{x}.reshape({x}.shape[::-1])",
    "{x}.reshape({x}.shape[0] * {x}.shape[1], *{x}.shape[2:])",
    "{x}.reshape({x}.shape[0] // 2, 2, *{x}.shape[1:])",
    "{x}.reshape(*{x}.shape[:-1], {x}.shape[-1] // 2, 2)",
    "{x}.contiguous().view({x}.shape[0], -1)",
    "{x}.contiguous().view(-1, {x}.shape[-1] // 2)",
    "{x}.unflatten({d}, (-1, 2))",
    "{x}.unflatten({d}, (2, -1))",
    "{x}.unflatten({d}, ({s}, -1))",
    "{x}.unflatten({d}, (1, -1))",
    "{x}.transpose({d}, {e})",
    "{x}.movedim({d}, {e})",
    "{x}.mT",
    "{x}.unsqueeze({d})",
    "{x}.squeeze()",
    "{x}.diagonal(0, {d}, {e})",
    "{x}.diagonal(1, {d}, {e})",
    "{x}.unfold({d}, 2, 1)",
    "{x}.unfold({d}, 2, 2)",
    "{x}.unfold({d}, 3, 2)",
    "{x}.expand(2, *{x}.shape)",
    "{x}.expand({s}, *{x}.shape)",
    "{x}.unsqueeze(-1).expand(*{x}.shape, {s})",
    "{x}.broadcast_to({n}, *{x}.shape)",
)
COPIES = (
    "torch.cat([{x}, {x}], {d})",
    "torch.cat([{x}, {y}], {d})",
    "torch.cat([{x}[1:], {x}[:1]])",
    "torch.cat([{x}, {x}.narrow({d}, 0, 1)], {d})",
    "torch.cat([{x}, {y}.new_zeros({s}, *{x}.shape[1:])])",
    "torch.stack([{x}, {y}], {d})",
    "{x}.repeat(2, {ones})",
    "{x}.repeat({s}, {ones})",
    "{x}.repeat(2, *[1] * {r})",
    "{x}.repeat_interleave(2, {d})",
    "{x}.repeat_interleave({n}, 0)",
    "torch.tile({x}, (2,))",
    "torch.roll({x}, 1, {d})",
    "torch.roll({x}, {n} // 2, {d})",
    "{x}.flip({d})",
    "F.pad({x}, (1, 2))",
    "F.pad({x}, (1, -1), value=0.5)",
    "F.pad({x}, (0, {s}))",
    "F.pad({x}, (-1, {n} - 1))",
    "torch.tril({x})",
    "torch.triu({x}, 1)",
    "torch.slice_scatter({x}, {x}[:1] * 2, 0, 0, 1)",
    "torch.slice_scatter({x}, {x}[1:] * 2, 0, 1, {x}.shape[0])",
    "torch.select_scatter({x}, {x}.select({d}, 0) * 2, {d}, -1)",
    "{x}.clone(memory_format=torch.contiguous_format)",
    "torch.meshgrid({x}.flatten()[:{s}], {y}.flatten()[:3], indexing='ij')",
    "torch.diag_embed({x})",
)
NUMBERS = (
    "{x} * {n}",
    "{x} / {n}",
    "{x} + {s} * 2 - {n}",
    "{x} * ({n} // 2) + {n} % 3",
    "{x} / ({n} * {s} + 1) ** 0.5",
    "{x} + torch.arange({x}.shape[-1], device={x}.device, dtype={x}.dtype)",
    "{x} + torch.arange({x}.shape[-1] - 1, -1, -1, device={x}.device, dtype={x}.dtype)",
    "{x} * torch.arange(1, 1 + {x}.shape[-1], device={x}.device).to({x}.dtype)",
    "{x} * torch.linspace(0, 1, {x}.shape[-1], device={x}.device).to({x}.dtype)",
    "{x} + torch.ones({x}.shape[-1], device={x}.device, dtype={x}.dtype)",
    "{x} - torch.full({x}.shape, 0.25, device={x}.device, dtype={x}.dtype)",
    "{x} + torch.eye({x}.shape[-1], device={x}.device, dtype={x}.dtype)[0]",
    "{x}.new_zeros({s}, {n}) + {n}",
    "{x}.new_full(({n} * 2, {s}), 0.5)",
    "torch.zeros_like({x}) + {x}.sum() / max({n}, 1)",
    "{x}.masked_fill(torch.arange({x}.shape[-1], device={x}.device) < {s} // 2, 0.5)",
    "torch.where(torch.arange({x}.shape[-1], device={x}.device) % 2 == 0, {x}, -{x})",
    "torch.arange({n}, device={x}.device) + {s}",
)
POINTWISE = (
    "torch.relu({x})",
    "torch.sigmoid({x})",
    "{x} * 2 + 1",
    "{x} + {y}",
    "{x} * {y} - {x}",
    "torch.where({x} > 0, {x}, {y})",
    "torch.maximum({x}, {y})",
    "{x}.to(torch.float32)",
    "({x} > 0).to({x}.dtype)",
    "F.gelu({x}) * torch.tanh({y})",
)
REDUCTIONS = (
    "{x}.sum({d})",
    "{x}.sum({d}, keepdim=True)",
    "{x}.mean({d})",
    "{x}.mean()",
    "{x}.amax({d})",
    "{x}.var({d})",
    "{x}.softmax({d})",
    "{x}.log_softmax(-1)",
    "{x}.logsumexp({d})",
    "{x}.argmax({d})",
    "{x}.cumsum({d})",
    "{x}.sort({d})[0]",
    "{x}.topk(1, {d})[0]",
    "{x}.topk({n} // 2, {d})[0]",
    "{x}.norm(dim={d})",
    "F.normalize({x}, dim={d})",
    "F.layer_norm({x}, {x}.shape[-1:])",
    "F.layer_norm({x}, {x}.shape[-2:])",
    "F.rms_norm({x}, {x}.shape[-1:])",
    "F.group_norm({x}, 1)",
    "F.batch_norm({x}, None, None, training=True)",
    "({x} - {x}.mean({d}, keepdim=True)) / ({x}.var({d}, keepdim=True, correction=0) + 1e-3).sqrt()",
    "{x}.sum({d}) / {n}",
    "{x}.flatten().dot({y}.flatten())",
    "{x}.prod({d})",
    "({x} > 0).any({d})",
    "({x} > 0).sum({d})",
    "F.mse_loss({x}, {y})",
)
INDEXING = (
    "{x}.index_select({d}, torch.arange({n} - 1, -1, -1, device={x}.device))",
    "{x}.index_select({d}, torch.arange({n}, device={x}.device) // 2)",
    "{x}[torch.arange({x}.shape[0], device={x}.device) // 2]",
    "{x}[:, torch.arange({x}.shape[1] // 2, device={x}.device) * 2]",
    "{x}[torch.arange({x}.shape[0], device={x}.device)[:, None] * 0, 0]",
    "{x}.gather({d}, torch.zeros_like({x}, dtype=torch.int64))",
    "{x}.gather(0, torch.arange({x}.shape[0], device={x}.device).reshape(-1, {ones}).expand({x}.shape))",
    "{x}.take_along_dim({x}.argsort({d}), {d})",
    "F.embedding(torch.arange({s}, device={x}.device) % {x}.shape[0], {x})",
    "torch.zeros_like({x}).scatter_add({d}, torch.zeros_like({x}, dtype=torch.int64), {x})",
    "torch.zeros_like({x}).index_add({d}, torch.arange({n}, device={x}.device), {x})",
    "{x}.index_copy(0, torch.arange(1, device={x}.device), {x}[-1:])",
    "{x}.scatter({d}, torch.zeros_like({x}, dtype=torch.int64), 2.0)",
)
IMAGES = (
    "F.avg_pool1d({x}, 2)",
    "F.max_pool1d({x}, 2)",
    "F.avg_pool1d({x}, 3, 1, 1)",
    "F.max_pool1d({x}, 3, 2, 1)",
    "F.adaptive_avg_pool1d({x}, 1)",
    "F.adaptive_avg_pool1d({x}, 2)",
    "F.interpolate({x}, scale_factor=2)",
    "F.interpolate({x}, size=({s},))",
    "F.interpolate({x}, scale_factor=2, mode='linear')",
    "F.pad({x}, (1, 1), mode='reflect')",
    "F.pad({x}, (2, 1), mode='replicate')",
    "F.pad({x}, (1, 1), mode='circular')",
    "F.conv1d({x}, {y}[:, :, :2])",
    "F.conv1d({x}, {y}[:2], padding=1, stride=2)",
    "F.conv1d({x}.reshape(-1, 1, {x}.shape[-1]), {w1}, stride=2)",
    "F.conv1d({x}.reshape(-1, 1, {x}.shape[-1]), {w1}, padding=2, dilation=2)",
    "F.conv_transpose1d({x}.reshape(-1, 1, {x}.shape[-1]), {w1}, stride=2)",
    "F.max_pool2d({x}, 2)",
    "F.avg_pool2d({x}, 2, 1)",
    "F.avg_pool2d({x}, 3, 2, 1)",
    "F.adaptive_avg_pool2d({x}, (2, 1))",
    "F.conv2d({x}[:, None], {w2}, stride=2, padding=1)",
    "F.conv2d({x}[:, None], {w2}, padding=1)",
    "F.pixel_shuffle({x}.repeat_interleave(4, 0), 2)",
    "F.pixel_unshuffle({x}, 2)",
    "F.unfold({x}[:, None], (2, 2), stride=2)",
    "F.interpolate({x}[None], scale_factor=2, mode='bilinear')",
    "F.interpolate({x}[None], size=({s}, {n}), mode='nearest')",
)
PRODUCTS = (
    "{x} @ {x}.mT",
    "{x}.mT @ {x}",
    "{x} @ {y}.mT",
    "F.linear({x}, {y})",
    "F.linear({x}, {x}[0])",
    "torch.einsum('...ij,...kj->...ik', {x}, {y})",
    "torch.einsum('...ij,...ij->...i', {x}, {y})",
    "torch.outer({x}.flatten()[:8], {y}.flatten()[:{s}])",
    "torch.kron({x}, {y}[:2])",
    "F.scaled_dot_product_attention({x}, {y}, {x})",
    "F.scaled_dot_product_attention({x}, {y}, {x}, is_causal=True)",
    "F.linear({x}.reshape(-1, 2), {w3})",
    "F.linear({x}.unflatten(-1, (-1, 2)), {w3}).flatten(-2)",
    "{x} @ {x}.new_ones({x}.shape[-1], {s})",
    "torch.cdist({x}, {y})",
)
SQUARES = (
    "{x} @ {x}",
    "{x} + {x}.mT",
    "{x} @ {y}",
    "F.linear({x}, {y})",
    "F.layer_norm({x}, {x}.shape[-2:])",
    "{x}.diagonal(0, -2, -1)",
    "{x}.diagonal(0, -2, -1).sum(-1)",
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
)
IN_PLACE = (
    "{x}[1:].mul_(2);",
    "{x}[..., 0] = 1.0;",
    "{x}[:{s}] += 1;",
    "{x}[::2].zero_();",
    "{x}.narrow({d}, {n} // 2, 1).add_({n});",
    "{x}.flatten(-2).add_(1);",
)


def written(g: NestedBuilder, x: str, y: str = "") -> str:
    rank = g.value(x).ndim
    d = g.dim(x)
    e = g.rng.choice([k for k in range(rank) if k != d] or [d])
    fields = {"x": x, "y": y, "r": rank, "d": d, "e": e, "n": f"{x}.shape[{d}]", "k": g.rng.choice([1, 1, 2, 3])}
    fields["ones"] = ", ".join(["1"] * (rank - 1)) or "1"
    for name, shape in (("w1", (2, 1, 3)), ("w2", (2, 1, 3, 3)), ("w3", (3, 2))):
        if f"{{{name}}}" in g.name:
            fields[name] = g.parameter(shape, g.dtype)
    text = g.name
    while "{s}" in text:  # each another size
        text = text.replace("{s}", g.size(), 1)
    return text.format(**fields)


@template(*SLICES, *SHAPES, weight=1.2)
@template(*COPIES, *NUMBERS, *REDUCTIONS, weight=0.8)
@template(*POINTWISE, weight=0.6)
@template(*INDEXING, weight=0.5)
def anything(g: NestedBuilder) -> str:
    two = any(
        part in g.name for part in ("{e}", "mT", "flatten(0", "flatten(-2", "shape[1]", "[:, ", "shape[-2:]", "tri")
    )
    three = g.name.startswith(("F.group_norm", "F.batch_norm"))
    x = g.floats(2 if "embedding" in g.name else None, 3 if three else 2 if two else 1)
    return written(g, x, g.same(x) if "{y}" in g.name else "")


@template(*IMAGES, weight=0.5)
def image(g: NestedBuilder) -> str:
    x = g.floats(3)
    return written(g, x, g.same(x) if "{y}" in g.name else "")


@template(*PRODUCTS, weight=0.9)
def product(g: NestedBuilder) -> str:
    x = g.floats(2 if g.name == "F.linear({x}, {y})" else None, 2)
    return written(g, x, g.same(x) if "{y}" in g.name else "")


@template(*(f"square: {name}" for name in SQUARES), weight=1.0)
def square(g: NestedBuilder) -> str:
    whole, g.name = g.name, g.name.removeprefix("square: ")
    x = g.square(2 if "F.linear" in g.name else None)
    text = written(g, x, g.same(x) if "{y}" in g.name else "")
    g.name = whole
    return text


@template(*IN_PLACE, weight=0.4)
def in_place(g: NestedBuilder) -> str | None:
    x = g.writable(lambda v: v.is_floating_point() and v.ndim > 0)
    if x is None or ("-2" in g.name and g.value(x).ndim < 2):
        return None
    return written(g, x)
