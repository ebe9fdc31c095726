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


FUNCTIONS: dict[str, Function] = {}


def _add(kinds: str, **marks: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def add(call: Callable[..., Any]) -> Callable[..., Any]:
        FUNCTIONS[call.__name__] = Function(call.__name__, call, tuple(kinds.split()), **marks)
        return call

    return add


# ------------------------------------------------------------------------------------------- integers in the program


@_add("v int")
def slice_scaled(x, k):
    return x[k:] * k


@_add("m int")
def narrow_sum(x, k):
    return x.narrow(0, k, 2).sum() * k


@_add("v int int")
def slice_between(x, k, j):
    return x[k : k + j].exp(), x[::2][j:] * k


@_add("b int size")
def narrow_dimension(x, k, n):
    return x.narrow(-1, k, n) * 2, x.select(0, k)


@_add("m int")
def select_row(x, k):
    return x[k] * k + x


@_add("m int")
def rolled(x, k):
    return torch.roll(x, k, 0) + k


@_add("m int")
def softmax_of_rest(x, k):
    return torch.softmax(x[k:], 0) * k


@_add("m int")
def diagonal(x, k):
    return x.diagonal(k) - 1, torch.tril(x, k)


@_add("t int")
def along(x, k):
    return x.sum(k), x.unsqueeze(k)


@_add("v size")
def chunks(x, k):
    return [part * 2 for part in x.chunk(k)]


@_add("v size")
def padded(x, k):
    return F.pad(x, (k, 1)) + k


@_add("v size")
def repeated(x, k):
    return x.repeat(k).cumsum(0)


@_add("m size")
def split(x, k):
    return [part.exp() for part in x.split(k, 0)]


@_add("t int float flag")
def numbers(x, k, a, flag):
    return x * a + k if flag else x * k - a


# ------------------------------------------------------------------------------------- what the program depends on


@_add("n")
def integer_quotient(x):
    return x / 3, torch.sqrt(x.abs())


@_add("t float")
def factories(x, a):
    return torch.full((2,), a, device=x.device) + torch.ones(2, device=x.device), torch.arange(3, device=x.device) * 0.5


@_add("v")
def on_the_current_device(x):
    return x + 1, torch.zeros(2, device="atalla") + 1


@_add("m m")
def product(x, y):
    return x @ y.t() if x.shape[-1] == y.shape[-1] else x.sum() * y


@_add("m row")
def linear(x, w):
    return F.relu(F.linear(x, torch.stack([w, w + 1])))


@_add("m")
def gram(x):
    return (x @ x.t()).relu().sum(0) + torch.ones(x.shape[0], device=x.device)


@_add("m")
def normalized(x):
    return F.layer_norm(x, x.shape[-1:]), torch.softmax(x, -1), x.mean()


@_add("t")
def grad_mode(x):
    return x * (2 if torch.is_grad_enabled() else 3)


@_add("t")
def default_dtype(x):
    return x.to(torch.get_default_dtype()) + 1, torch.tensor(2.5, device=x.device)


# ---------------------------------------------------------------------------------------------- views and aliasing


@_add("t")
def pointwise(x):
    return (x * 2 + 1).relu(), x.neg()


@_add("m")
def views(x):
    return x.t(), x[1:], x + 1


@_add("m")
def views_of_a_result(x):
    y = x.exp()
    return y, y.t(), y[:, :1], y.view(-1)[1:]


@_add("v size")
def expanded(x, k):
    return x.expand(k, -1), x.exp().expand(k, -1)


@_add("m like")
def two(x, y):
    return x + y, x - y.t() if x.shape[0] == x.shape[1] else x * y


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


@_add("m int")
def strided(x, k):
    return x.as_strided((2, 2), (1, 2), abs(k)) + 1


@_add("m like float", updates=True)
def optimizer_step(x, grad, rate):
    """A step with momentum and decay. Dynamo takes addcdiv_ with a factor apart, as here, and rounds after each op."""
    state = torch.zeros_like(x).lerp_(grad.to(x.dtype), 0.1)
    with torch.no_grad():
        x.mul_(0.9).add_(state.div(state.abs().sqrt().add_(1e-2)).mul_(-abs(rate)))
    return state


# ------------------------------------------------------------------------------------------- lazy bits, other dtypes


@_add("c")
def complex_parts(x):
    return x.conj() * 2, x.real + 1, x.abs()


@_add("c")
def lazy_result(x):
    return (x * 2).conj(), x.imag


@_add("n int")
def shifts(x, k):
    return x + k, x * 2 > k, torch.where(x > k, x, -x)


@_add("t like")
def mixed(x, y):
    return torch.maximum(x, y.to(x.dtype)), (x > y).sum()


@_add("t")
def converted(x):
    return x.to(torch.bfloat16), x.float() * 0.1, x.double() + 1


# ---------------------------------------------------------------------------------------------------- random numbers


@_add("t", random=True)
def dropout(x):
    return F.dropout(x, 0.5, True)


@_add("t", random=True)
def noise(x):
    return x + torch.rand_like(x), torch.randint(0, 9, (3,), device=x.device)


@_add("v size", random=True)
def drawn(x, k):
    return torch.randn(k, device=x.device) * x.sum(), torch.randperm(k, device=x.device)


@_add("t like", random=True)
def dropouts(x, y):
    return F.dropout(x, 0.3) * torch.empty_like(y).uniform_(), torch.empty_like(x).uniform_()


@_add("m", random=True)
def checkpointed(x):
    return checkpoint(lambda x: F.dropout(x.sin(), 0.5).exp(), x, use_reentrant=False)


# ------------------------------------------------------------------------------------------ several graphs, the host


@_add("m")
def graph_break(x):
    y = x.exp()
    torch._dynamo.graph_break()
    return y + x.sum()


@_add("n")
def data_dependent(x):
    return x[x > 1] * 2, x.sum()


@_add("t float")
def with_cpu_scalar(x, a):
    return x * torch.tensor(a) + 1


@_add("b row")
def attention(x, w):
    q = x * w
    return F.scaled_dot_product_attention(q, x, x)
