# SPDX-License-Identifier: BSD-3-Clause
"""The functions that a sequence calls. They are few and small, so that caches meet the same function again and again
with other arguments and under another ambient state.

The kinds of a function's arguments are words:

    t        a tensor of rank 0 to 3                c        a complex tensor
    v, m, b  a vector, a matrix, a batch of them    n        a tensor of integers
    like     a tensor of the first one's sizes      row      a tensor of the first one's last size
    int      a small integer, also negative         size     a small positive integer
    float    a number                               flag     a truth value
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from torch_atalla import fallback  # noqa: F401  (registers the device)


@dataclass(frozen=True)
class Function:
    name: str
    call: Callable[..., Any]
    kinds: tuple[str, ...]
    random: bool = False  # draws random numbers
    updates: bool = False  # writes to its arguments


# Name -> kinds of the arguments, and the function.
EXPRESSIONS: dict[str, tuple[str, Callable[..., Any]]] = {
    # integers in the program
    "slice_scaled": ("v int", lambda x, k: x[k:] * k),
    "narrow_sum": ("m int", lambda x, k: x.narrow(0, k, 2).sum() * k),
    "slice_between": ("v int int", lambda x, k, j: (x[k : k + j].exp(), x[::2][j:] * k)),
    "narrow_dimension": ("b int size", lambda x, k, n: (x.narrow(-1, k, n) * 2, x.select(0, k))),
    "select_row": ("m int", lambda x, k: x[k] * k + x),
    "rolled": ("m int", lambda x, k: torch.roll(x, k, 0) + k),
    "softmax_of_rest": ("m int", lambda x, k: torch.softmax(x[k:], 0) * k),
    "diagonal": ("m int", lambda x, k: (x.diagonal(k) - 1, torch.tril(x, k))),
    "along": ("t int", lambda x, k: (x.sum(k), x.unsqueeze(k))),
    "chunks": ("v size", lambda x, k: [part * 2 for part in x.chunk(k)]),
    "padded": ("v size", lambda x, k: F.pad(x, (k, 1)) + k),
    "repeated": ("v size", lambda x, k: x.repeat(k).cumsum(0)),
    "split": ("m size", lambda x, k: [part.exp() for part in x.split(k, 0)]),
    "numbers": ("t int float flag", lambda x, k, a, flag: x * a + k if flag else x * k - a),
    # what the program depends on
    "integer_quotient": ("n", lambda x: (x / 3, torch.sqrt(x.abs()))),
    "factories": (
        "t float",
        lambda x, a: (
            torch.full((2,), a, device=x.device) + torch.ones(2, device=x.device),
            torch.arange(3, device=x.device) * 0.5,
        ),
    ),
    "on_the_current_device": ("v", lambda x: (x + 1, torch.zeros(2, device="atalla") + 1)),
    "product": ("m m", lambda x, y: x @ y.t() if x.shape[-1] == y.shape[-1] else x.sum() * y),
    "linear": ("m row", lambda x, w: F.relu(F.linear(x, torch.stack([w, w + 1])))),
    "gram": ("m", lambda x: (x @ x.t()).relu().sum(0) + torch.ones(x.shape[0], device=x.device)),
    "normalized": ("m", lambda x: (F.layer_norm(x, x.shape[-1:]), torch.softmax(x, -1), x.mean())),
    "grad_mode": ("t", lambda x: x * (2 if torch.is_grad_enabled() else 3)),
    "default_dtype": ("t", lambda x: (x.to(torch.get_default_dtype()) + 1, torch.tensor(2.5, device=x.device))),
    # views and aliasing
    "pointwise": ("t", lambda x: ((x * 2 + 1).relu(), x.neg())),
    "views": ("m", lambda x: (x.t(), x[1:], x + 1)),
    "expanded": ("v size", lambda x, k: (x.expand(k, -1), x.exp().expand(k, -1))),
    "two": ("m like", lambda x, y: (x + y, x - y.t() if x.shape[0] == x.shape[1] else x * y)),
    "strided": ("m int", lambda x, k: x.as_strided((2, 2), (1, 2), abs(k)) + 1),
    # lazy bits, other dtypes
    "complex_parts": ("c", lambda x: (x.conj() * 2, x.real + 1, x.abs())),
    "lazy_result": ("c", lambda x: ((x * 2).conj(), x.imag)),
    "shifts": ("n int", lambda x, k: (x + k, x * 2 > k, torch.where(x > k, x, -x))),
    "mixed": ("t like", lambda x, y: (torch.maximum(x, y.to(x.dtype)), (x > y).sum())),
    "converted": ("t", lambda x: (x.to(torch.bfloat16), x.float() * 0.1, x.double() + 1)),
    # several graphs, the host
    "data_dependent": ("n", lambda x: (x[x > 1] * 2, x.sum())),
    "with_cpu_scalar": ("t float", lambda x, a: x * torch.tensor(a) + 1),
}
# Those that draw random numbers.
RANDOM: dict[str, tuple[str, Callable[..., Any]]] = {
    "dropout": ("t", lambda x: F.dropout(x, 0.5, True)),
    "noise": ("t", lambda x: (x + torch.rand_like(x), torch.randint(0, 9, (3,), device=x.device))),
    "drawn": ("v size", lambda x, k: (torch.randn(k, device=x.device) * x.sum(), torch.randperm(k, device=x.device))),
    "dropouts": (
        "t like",
        lambda x, y: (F.dropout(x, 0.3) * torch.empty_like(y).uniform_(), torch.empty_like(x).uniform_()),
    ),
    "checkpointed": ("m", lambda x: checkpoint(lambda x: F.dropout(x.sin(), 0.5).exp(), x, use_reentrant=False)),
}

FUNCTIONS = {
    name: Function(name, call, tuple(kinds.split()), random=name in RANDOM)
    for name, (kinds, call) in (EXPRESSIONS | RANDOM).items()
}


def _add(kinds: str, **marks: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def add(call: Callable[..., Any]) -> Callable[..., Any]:
        FUNCTIONS[call.__name__] = Function(call.__name__, call, tuple(kinds.split()), **marks)
        return call

    return add


@_add("m")
def views_of_a_result(x):
    y = x.exp()
    return y, y.t(), y[:, :1], y.view(-1)[1:]


@_add("m like", updates=True)
def update(x, y):
    x.add_(y)
    return x * 2


@_add("v like", updates=True)
def update_part(x, y):
    x[1:].mul_(3)
    return y + 1, x.sum()


@_add("m like like", updates=True)
def update_in_order(x, y, z):
    y.mul_(2)
    x.copy_(y.t() if y.shape[0] == y.shape[1] else y)
    return z + x, y.sum(0)


@_add("m", updates=True)
def update_view(x):
    x.t().add_(1)
    return x.view(x.shape)


@_add("t")
def same_result_twice(x):
    y = x + 1
    return y, y, x


@_add("m like float", updates=True)
def optimizer_step(x, grad, rate):
    """A step with momentum and decay. Dynamo takes addcdiv_ with a factor apart, as here, and rounds after each op."""
    state = torch.zeros_like(x).lerp_(grad.to(x.dtype), 0.1)
    with torch.no_grad():
        x.mul_(0.9).add_(state.div(state.abs().sqrt().add_(1e-2)).mul_(-abs(rate)))
    return state


@_add("m")
def graph_break(x):
    y = x.exp()
    torch._dynamo.graph_break()
    return y + x.sum()


@_add("b row")
def attention(x, w):
    q = x * w
    return F.scaled_dot_product_attention(q, x, x)
