# SPDX-License-Identifier: BSD-3-Clause
"""Statements for indexing, gathering and scattering."""

from __future__ import annotations

from .texts import PLAIN, each, texts

texts(
    "{x}.index_select({d}, {along})",
    "torch.take_along_dim({x}, {places}, {d})",
    "{x}.gather({d}, {places})",
    *each("{x}[{op}]", "{rows}", "..., {lasts}", "{rows}, {columns}"),
    weight=0.6,
    dtypes="all",
    tables=PLAIN,
)
texts(
    *each("{x}.scatter({d}, {op})", "{places}, 0.5", "{places}, 2.0, reduce='multiply'", "{places}, {y}, reduce='add'"),
    "{x}.scatter({d}, torch.zeros_like({y}.narrow({d}, 0, 1), dtype=torch.int64), {y})",
    "{x}.scatter({d}, torch.argsort({y}, {d}), {y})",  # positions that repeat have no order
    "{x}.scatter_add({d}, {places}, {y})",
    *each(
        "torch.scatter_reduce({x}, {d}, {places}, {y}, {op}, include_self={flag})",
        *("'amax'", "'amin'", "'sum'", "'prod'", "'mean'"),
    ),
    *each("{x}.{op}({d}, {distinct}, {x}.index_select({d}, {distinct}) * 2)", "index_add", "index_copy"),
    "{x}.index_fill({d}, {along}, 0.5)",
    "{x}.index_put(({distinct_rows},), {x}[{distinct_rows}] * 2)",
    "{x}.index_put(({rows},), {x}[{rows}], accumulate=True)",
    dtypes="numbers",
    tables=PLAIN,
)
texts(
    "torch.searchsorted(torch.sort({x}, -1)[0], {x})",
    "torch.where({x} > 0, {x}, {x}[(0,) * {x}.ndim])",
    "{x}.index_select({d}, torch.arange({n} - 1, -1, -1, device={x}.device))",
    "{x}.index_select({d}, torch.arange({n}, device={x}.device) // 2)",
    "{x}[torch.arange({x}.shape[0], device={x}.device) // 2]",
    "{x}.gather({d}, torch.zeros_like({x}, dtype=torch.int64))",
    "{x}.gather(0, torch.arange({x}.shape[0], device={x}.device).reshape(-1, *[1] * ({x}.ndim - 1)).expand({x}.shape))",
    "{x}.take_along_dim({x}.argsort({d}), {d})",
    "torch.zeros_like({x}).scatter_add({d}, torch.zeros_like({x}, dtype=torch.int64), {x})",
    "torch.zeros_like({x}).index_add({d}, torch.arange({n}, device={x}.device), {x})",
    "{x}.index_copy(0, torch.arange(1, device={x}.device), {x}[-1:])",
    "{x}.scatter({d}, torch.zeros_like({x}, dtype=torch.int64), 2.0)",
    "{x}.flatten()[torch.tril_indices(2, 2, device={x}.device)[0] % {x}.numel()]",
    weight=0.3,
)
texts(
    "{x}[:, torch.arange({x}.shape[1] // 2, device={x}.device) * 2]",
    "{x}[torch.arange({x}.shape[0], device={x}.device)[:, None] * 0, 0]",
    weight=0.3,
    least=2,
)
texts("F.embedding(torch.arange({s}, device={x}.device) % {x}.shape[0], {x})", weight=0.3, rank=2)
texts(
    "torch.isin({x}, torch.tensor([1, 3], device={x}.device))",
    "F.one_hot({x}.long().clamp(0, 4), 5)",
    "F.embedding({x}.long().clamp(0, 4), {table})",
    "F.embedding({words}, {table})",
    *each("F.embedding_bag({sentences}, {table}, mode={op})", "'sum'", "'mean'", "'max'"),
    weight=0.2,
    dtypes="integers",
    least=0,
    tables=PLAIN,
)
