# SPDX-License-Identifier: BSD-3-Clause
"""Statements for indexing, gathering and scattering."""

from __future__ import annotations

import torch

from .generator import Builder, template


@template(
    "index_select", "take_along_dim", "gather", "index rows", "index last", "index pairs", "index bool", weight=0.6
)
def read(g: Builder) -> str:
    x = g.tensor(lambda v: v.ndim > 0 and v.numel() > 0)
    shape = tuple(g.value(x).shape)
    d = g.rng.randrange(len(shape))
    if g.name == "index_select":
        return f"{x}.index_select({d}, {g.indices(shape[d], (g.rng.choice([1, 2, 4]),))})"
    if g.name in ("take_along_dim", "gather"):
        place = list(shape)
        place[d] = g.rng.choice([1, 2, shape[d]])
        index = g.indices(shape[d], tuple(place))
        return f"torch.take_along_dim({x}, {index}, {d})" if g.name != "gather" else f"{x}.gather({d}, {index})"
    if g.name == "index rows":
        return f"{x}[{g.indices(shape[0], g.rng.choice([(3,), (2, 2), ()]))}]"
    if g.name == "index last":
        return f"{x}[..., {g.indices(shape[-1], (3,))}]"
    if g.name == "index bool":
        return f"torch.where({x} > 0, {x}, {x}[(0,) * {x}.ndim])"
    if len(shape) < 2:
        return f"{x}[{g.indices(shape[0], (4,))}]"
    return f"{x}[{g.indices(shape[0], (3,))}, {g.indices(shape[1], g.rng.choice([(3,), (2, 1)]))}]"


WRITES = (
    *("scatter", "scatter value", "scatter_add", "scatter_reduce", "index_add", "index_copy", "index_fill"),
    *("index_put", "index_put accumulate", "scatter value reduce", "scatter src reduce"),
)


@template(*WRITES, weight=0.5)
def write(g: Builder) -> str:
    x = g.tensor(lambda v: v.ndim > 0 and v.numel() > 0 and (v.is_floating_point() or v.dtype == torch.int64))
    shape = tuple(g.value(x).shape)
    d = g.rng.randrange(len(shape))
    if g.name.startswith("scatter"):
        place = list(shape)
        place[d] = min(shape[d], g.rng.choice([1, 2]))
        index = g.indices(shape[d], tuple(place))
        source = g.same(x)
        if g.name == "scatter":  # positions that repeat have no order
            order = f"torch.argsort({source}.narrow({d}, 0, {place[d]}), {d})"
            index = f"torch.zeros_like({index})" if place[d] == 1 else order
        kind = g.rng.choice(["amax", "amin", "sum", "prod", "mean"])
        include = g.chance(0.5)
        forms = {
            "scatter": f"{x}.scatter({d}, {index}, {source})",
            "scatter value": f"{x}.scatter({d}, {index}, 0.5)",
            "scatter_add": f"{x}.scatter_add({d}, {index}, {source})",
            "scatter_reduce": f"torch.scatter_reduce({x}, {d}, {index}, {source}, {kind!r}, include_self={include})",
            "scatter value reduce": f"{x}.scatter({d}, {index}, 2.0, reduce='multiply')",
            "scatter src reduce": f"{x}.scatter({d}, {index}, {source}, reduce='add')",
        }
        return forms[g.name]
    count = g.rng.choice([1, 2])
    if g.name == "index_fill":
        return f"{x}.index_fill({d}, {g.indices(shape[d], (count,))}, 0.5)"
    count = min(count, shape[d])
    unique = g.new_input((count,), torch.int64, f"torch.randperm({shape[d]})[:{count}]")
    part = f"{x}.index_select({d}, {unique}) * 2"
    if g.name == "index_put":
        unique = g.new_input((min(2, shape[0]),), torch.int64, f"torch.randperm({shape[0]})[:{min(2, shape[0])}]")
        return f"{x}.index_put(({unique},), {x}[{unique}] * 2)"
    if g.name == "index_put accumulate":
        index = g.indices(shape[0], (3,))
        return f"{x}.index_put(({index},), {x}[{index}], accumulate=True)"
    return f"{x}.{g.name}({d}, {unique}, {part})"


@template("embedding", "embedding rows", "one_hot", "embedding_bag", weight=0.5)
def embedding(g: Builder) -> str:
    width, dtype = g.rng.choice([1, 3, 8, 16]), g.dtype
    if g.name == "one_hot":
        x = g.integers()
        return f"F.one_hot({x}.long().clamp(0, 4), 5)"
    weight = g.parameter((5, width), dtype)
    if g.name == "embedding_bag":
        index = g.indices(5, (g.rng.choice([2, 3]), 4))
        return f"F.embedding_bag({index}, {weight}, mode={g.rng.choice(['sum', 'mean', 'max'])!r})"
    if g.name == "embedding rows":
        return f"F.embedding({g.integers()}.long().clamp(0, 4), {weight})"
    return f"F.embedding({g.indices(5, g.shape(g.rng.choice([1, 2])))}, {weight})"


@template("searchsorted", "isin", "tril_indices", weight=0.15)
def searching(g: Builder) -> str:
    x = g.floats(least=1)
    if g.name == "searchsorted":
        return f"torch.searchsorted(torch.sort({x}, -1)[0], {x})"
    if g.name == "isin":
        return f"torch.isin({g.integers()}, torch.tensor([1, 3], device={x}.device))"
    return f"{x}.flatten()[torch.tril_indices(2, 2, device={x}.device)[0] % {x}.numel()]"
