# SPDX-License-Identifier: BSD-3-Clause
"""Families of ops for benchmarks.ops: each case makes the same callable for any device, dtype and size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional as F

FLOATING = (torch.float32, torch.bfloat16)
ALL = (*FLOATING, torch.int64)
Tensor = torch.Tensor
Body = Callable[..., Any]


@dataclass(frozen=True)
class OpCase:
    family: str
    name: str
    dtypes: tuple[torch.dtype, ...]
    # device, dtype, elements -> what is measured
    make: Callable[[str, torch.dtype, int], Callable[[], Any]]
    sizes: tuple[int, ...] = (8, 2**20)


def values(device: str, dtype: torch.dtype, *shape: int) -> Tensor:
    """In (0.1, 1.1), or whole numbers from 1 to 9: in the domain of every op below."""
    if dtype.is_floating_point:
        return (torch.rand(shape) + 0.1).to(dtype).to(device)
    return torch.randint(1, 10, shape).to(dtype).to(device)


def rows_of(elements: int) -> tuple[int, int]:
    """Rows and columns of a matrix of that many elements."""
    width = 1024 if elements >= 2**20 else 4
    return elements // width, width


def flat(family: str, name: str, body: Body, operands: int = 1, dtypes: tuple[torch.dtype, ...] = ALL) -> OpCase:
    def make(device: str, dtype: torch.dtype, elements: int) -> Callable[[], Any]:
        tensors = [values(device, dtype, elements) for _ in range(operands)]
        return lambda: body(*tensors)

    return OpCase(family, name, dtypes, make)


def matrix(family: str, name: str, body: Body, dtypes: tuple[torch.dtype, ...] = ALL) -> OpCase:
    def make(device: str, dtype: torch.dtype, elements: int) -> Callable[[], Any]:
        x = values(device, dtype, *rows_of(elements))
        return lambda: body(x)

    return OpCase(family, name, dtypes, make)


def indexed(name: str, body: Body, dtypes: tuple[torch.dtype, ...] = ALL) -> OpCase:
    """body(x, index): a matrix and as many row numbers as it has rows."""

    def make(device: str, dtype: torch.dtype, elements: int) -> Callable[[], Any]:
        rows, columns = rows_of(elements)
        x, index = values(device, dtype, rows, columns), torch.randperm(rows).to(device)
        return lambda: body(x, index)

    return OpCase("indexing", name, dtypes, make)


def pooled(name: str, body: Body) -> OpCase:
    def make(device: str, dtype: torch.dtype, elements: int) -> Callable[[], Any]:
        side = 128 if elements >= 2**20 else 2
        x = values(device, dtype, 1, elements // (side * side), side, side)
        return lambda: body(x)

    return OpCase("images", name, FLOATING, make)


def masked(name: str, body: Body) -> OpCase:
    def make(device: str, dtype: torch.dtype, elements: int) -> Callable[[], Any]:
        x, mask = values(device, dtype, elements), (torch.arange(elements) % 3 == 0).to(device)
        return lambda: body(x, mask)

    return OpCase("selection", name, ALL, make)


def product(n: int) -> OpCase:
    def make(device: str, dtype: torch.dtype, elements: int) -> Callable[[], Any]:
        x, y = values(device, dtype, n, n), values(device, dtype, n, n)
        return lambda: x @ y

    return OpCase("products", f"mm {n} x {n} x {n}", (torch.float32,), make, (n * n,))


def convolution() -> OpCase:
    def make(device: str, dtype: torch.dtype, elements: int) -> Callable[[], Any]:
        x, w = values(device, dtype, 1, 64, 56, 56), values(device, dtype, 64, 64, 3, 3)
        return lambda: F.conv2d(x, w, padding=1)

    return OpCase("products", "conv2d 3 x 3, 64 channels, 56 x 56", (torch.float32,), make, (64 * 56 * 56,))


def normalised(name: str, body: Body) -> OpCase:
    def make(device: str, dtype: torch.dtype, elements: int) -> Callable[[], Any]:
        rows, columns = rows_of(elements)
        x, w = values(device, dtype, rows, columns), values(device, dtype, columns)
        return lambda: body(x, w)

    return OpCase("normalisation", name, FLOATING, make)


def attention() -> OpCase:
    def make(device: str, dtype: torch.dtype, elements: int) -> Callable[[], Any]:
        shape = (4, 8, 512, 64) if elements >= 2**20 else (1, 1, 2, 4)
        q, k, v = (values(device, dtype, *shape) for _ in range(3))
        return lambda: F.scaled_dot_product_attention(q, k, v)

    return OpCase("products", "attention", FLOATING, make)


def created(name: str, body: Callable[[str, torch.dtype, int], Any], dtypes: tuple[torch.dtype, ...] = ALL) -> OpCase:
    return OpCase("creation", name, dtypes, lambda device, dtype, n: lambda: body(device, dtype, n))


def unary_cases() -> list[OpCase]:
    every = {"neg": torch.neg, "abs": torch.abs, "sign": torch.sign}
    floating = {
        "exp": torch.exp, "log": torch.log, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt, "sin": torch.sin,
        "tanh": torch.tanh, "erf": torch.erf, "sigmoid": torch.sigmoid, "gelu": F.gelu, "silu": F.silu,
        "lgamma": torch.lgamma,
        "log1p": torch.log1p, "reciprocal": torch.reciprocal, "round": torch.round,
    }  # fmt: skip
    found = [flat("unary", name, body) for name, body in every.items()]
    return found + [flat("unary", name, body, dtypes=FLOATING) for name, body in floating.items()]


def binary_cases() -> list[OpCase]:
    every = {
        "add": torch.add, "mul": torch.mul, "remainder": torch.remainder, "maximum": torch.maximum, "eq": torch.eq,
        "pow": torch.pow, "div": torch.div, "floor_divide": torch.floor_divide,
    }  # fmt: skip
    found = [flat("binary", name, body, 2) for name, body in every.items()]
    found += [flat("binary", "atan2", torch.atan2, 2, FLOATING), flat("binary", "lerp", lambda x, y: x.lerp(y, 0.3), 2,
              FLOATING), flat("binary", "bitwise_xor", torch.bitwise_xor, 2, (torch.int64,)),
              flat("binary", "addcmul", torch.addcmul, 3), flat("binary", "add a scalar", lambda x: x + 2)]  # fmt: skip
    return found


def other_cases() -> list[OpCase]:
    return [
        flat("reductions", "sum", torch.sum),
        flat("reductions", "amax", torch.amax),
        flat("reductions", "argmax", torch.argmax),
        flat("reductions", "prod", torch.prod),
        flat("reductions", "vector norm", torch.linalg.vector_norm, dtypes=FLOATING),
        flat("reductions", "var", torch.var, dtypes=FLOATING),
        matrix("reductions", "sum of rows", lambda x: x.sum(1)),
        matrix("reductions", "sum of columns", lambda x: x.sum(0)),
        matrix("reductions", "mean of rows", lambda x: x.mean(1), FLOATING),
        matrix("reductions", "max of rows", lambda x: x.max(1)),
        matrix("reductions", "logsumexp", lambda x: x.logsumexp(1), FLOATING),
        matrix("scans", "cumsum", lambda x: x.cumsum(1)),
        matrix("scans", "cumprod", lambda x: x.cumprod(1)),
        matrix("scans", "cummax", lambda x: x.cummax(1)),
        matrix("sorting", "sort", lambda x: x.sort(1)),
        matrix("sorting", "topk", lambda x: x.topk(2, 1)),
        matrix("sorting", "median", lambda x: x.median(1)),
        flat("sorting", "unique", torch.unique),
        indexed("index_select", lambda x, i: x.index_select(0, i)),
        indexed("index", lambda x, i: x[i]),
        indexed("index_put", lambda x, i: x.index_put((i,), x)),
        indexed("index_add", lambda x, i: x.index_add(0, i, x)),
        indexed("gather", lambda x, i: x.gather(0, i.unsqueeze(1).expand_as(x))),
        indexed("scatter", lambda x, i: x.scatter(0, i.unsqueeze(1).expand_as(x), x)),
        indexed("scatter_add", lambda x, i: x.scatter_add(0, i.unsqueeze(1).expand_as(x), x)),
        indexed("embedding", lambda x, i: F.embedding(i, x), FLOATING),
        masked("where", lambda x, m: torch.where(m, x, 0)),
        masked("masked_fill", lambda x, m: x.masked_fill(m, 0)),
        masked("masked_select", lambda x, m: x.masked_select(m)),
        masked("nonzero", lambda x, m: m.nonzero()),
        flat("copies", "clone", torch.clone),
        flat("copies", "cat", lambda x, y: torch.cat((x, y)), 2),
        flat("copies", "to float64", lambda x: x.double()),
        flat("copies", "flip", lambda x: x.flip(0)),
        flat("copies", "roll", lambda x: x.roll(3)),
        matrix("copies", "transpose", lambda x: x.t().contiguous()),
        matrix("copies", "tril", torch.tril),
        matrix("copies", "repeat", lambda x: x.repeat(2, 1)),
        matrix("normalisation", "softmax", lambda x: x.softmax(1), FLOATING),
        matrix("normalisation", "log_softmax", lambda x: x.log_softmax(1), FLOATING),
        normalised("layer_norm", lambda x, w: F.layer_norm(x, w.shape, w, w)),
        normalised("rms_norm", lambda x, w: F.rms_norm(x, w.shape, w)),
        normalised("batch_norm", lambda x, w: F.batch_norm(x, None, None, w, w, True)),
        pooled("max_pool2d", lambda x: F.max_pool2d(x, 2)),
        pooled("avg_pool2d", lambda x: F.avg_pool2d(x, 2)),
        pooled("upsample bilinear", lambda x: F.interpolate(x, scale_factor=2, mode="bilinear")),
        pooled("reflection pad", lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect")),
        flat("spectra", "rfft", torch.fft.rfft, dtypes=(torch.float32,)),
        created("zeros", lambda device, dtype, n: torch.zeros(n, dtype=dtype, device=device)),
        created("arange", lambda device, dtype, n: torch.arange(n, dtype=dtype, device=device)),
        created("rand", lambda device, dtype, n: torch.rand(n, dtype=dtype, device=device), FLOATING),
        created("randn", lambda device, dtype, n: torch.randn(n, dtype=dtype, device=device), FLOATING),
        created("randint", lambda device, dtype, n: torch.randint(9, (n,), dtype=dtype, device=device)),
        attention(),
        *(product(n) for n in (512, 1024, 2048)),
        convolution(),
    ]


def cases() -> list[OpCase]:
    return unary_cases() + binary_cases() + other_cases()
