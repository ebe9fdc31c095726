# SPDX-License-Identifier: BSD-3-Clause
"""The launches that benchmarks.isa_codegen measures: one of each kind of kernel that has an Atalla program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod, sqrt
from typing import Any

import torch
import torch.nn.functional as F

BF16 = torch.bfloat16


@dataclass
class Case:
    """A launch: what the linear program of a loadable would say of it, and the same op for the functional engine."""

    name: str
    kernel: str
    inputs: list[torch.Tensor | None]
    out: torch.Tensor
    parameters: dict[str, Any] = field(default_factory=dict)
    constants: tuple[int, ...] = ()  # the inputs whose values the compiler knows
    extra_outputs: int = 0
    products: int = 0  # of 32 x 32 x 32 tiles
    functional: Callable[..., torch.Tensor] | None = None  # of the inputs that are there
    module: torch.nn.Module | None = None  # instead: of the first input; one launch of its loadable is the op


def tensor(*sizes: int) -> torch.Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(sum(sizes))).to(BF16)


def image(*sizes: int) -> torch.Tensor:
    """[n, c, h, w] with channels innermost."""
    return tensor(*sizes).contiguous(memory_format=torch.channels_last)


def cases() -> list[Case]:
    return [*products(), *pointwise(), *rows(), attention(), *images(), *data()]


def products() -> list[Case]:
    found = []
    for n in (512, 1024):
        a, b = tensor(1, n, n), tensor(1, n, n)
        for name, constants in (("B as it lies", ()), ("B packed", (1,))):
            found.append(
                Case(
                    f"GEMM {n}^3, {name}",
                    "gemm",
                    [a, b],
                    torch.empty(1, n, n, dtype=BF16),
                    {"alpha": 1, "beta": 0},
                    constants,
                    products=(n // 32) ** 3,
                    functional=None if constants else torch.matmul,
                    module=linear(b[0].t()) if constants else None,
                )
            )
    p, q = tensor(12, 128, 64), tensor(12, 64, 128)
    found.append(
        Case(
            "batched GEMM 12 x 128 x 64 x 128",
            "gemm",
            [p, q],
            torch.empty(12, 128, 128, dtype=BF16),
            {"alpha": 1, "beta": 0},
            products=12 * 4 * 2 * 4,
            functional=torch.bmm,
        )
    )
    x, wide, bias = tensor(256, 384), tensor(1, 384, 1536), tensor(1536)
    found.append(
        Case(
            "linear 256 x 384 x 1536, bias, GELU",
            "gemm",
            [x[None], wide, bias.expand(1, 256, 1536)],
            torch.empty(1, 256, 1536, dtype=BF16),
            {"alpha": 1, "beta": 1, "activation": 2},
            (1, 2),
            products=8 * 12 * 48,
            module=linear_gelu(wide[0].t(), bias),
        )
    )
    return found


def linear(weight: torch.Tensor) -> torch.nn.Module:
    layer = torch.nn.Linear(weight.shape[1], weight.shape[0], bias=False, dtype=BF16)
    layer.weight.data = weight.contiguous()
    return layer.eval()


def linear_gelu(weight: torch.Tensor, bias: torch.Tensor) -> torch.nn.Module:
    layer = torch.nn.Linear(weight.shape[1], weight.shape[0], dtype=BF16)
    layer.weight.data, layer.bias.data = weight.contiguous(), bias
    return torch.nn.Sequential(layer, torch.nn.GELU()).eval()


def layer_norm(weight: torch.Tensor, bias: torch.Tensor) -> torch.nn.Module:
    layer = torch.nn.LayerNorm(weight.shape[0], dtype=BF16)
    layer.weight.data, layer.bias.data = weight, bias
    return layer.eval()


def pointwise() -> list[Case]:
    x, y = tensor(256, 384), tensor(384)

    def unary(name: str, kernel: str, op: Callable, **scalars: float) -> Case:
        return Case(f"{name} 256 x 384", f"pointwise.{kernel}", [x], torch.empty_like(x), scalars, functional=op)

    return [
        Case("add 256 x 384", "pointwise.add", [x, x], torch.empty_like(x), {"alpha": 1}, functional=torch.add),
        Case(
            "mul 256 x 384 by rows of 384",
            "pointwise.mul",
            [x, y.expand(x.shape)],
            torch.empty_like(x),
            functional=torch.mul,
        ),
        unary("ReLU", "relu", torch.relu),
        unary("leaky ReLU", "leaky_relu", lambda t: F.leaky_relu(t, 0.1), negative_slope=0.1),
        unary("sigmoid", "sigmoid", torch.sigmoid),
        unary("tanh", "tanh", torch.tanh),
        unary("GELU", "gelu_none", F.gelu),
        unary("SiLU", "silu", F.silu),
    ]


def rows() -> list[Case]:
    x, w, bias = tensor(256, 384), tensor(384), tensor(384)
    norm = Case(
        "layer norm 256 x 384",
        "layer_norm",
        [x, w, bias],
        torch.empty_like(x),
        {"eps": 1e-5},
        (1, 2),
        2,
        module=layer_norm(w, bias),
    )
    softmax = Case(
        "softmax 256 x 384", "softmax", [x], torch.empty_like(x), {"dim": 1}, functional=lambda t: torch.softmax(t, 1)
    )
    rms = Case(
        "RMS norm 256 x 384",
        "rms_norm",
        [x, w],
        torch.empty_like(x),
        {"eps": 1e-5},
        (1,),
        2,
        module=rms_norm(w),
    )
    found = [softmax, norm, rms]
    for name, op, dim in (("sum", torch.sum, 1), ("mean", torch.mean, 0), ("amax", torch.amax, 1)):
        out = torch.empty((1, 384) if dim == 0 else (256, 1), dtype=BF16)
        found.append(
            Case(
                f"{name} of 256 x 384 over dimension {dim}",
                f"reduce.{name}",
                [x],
                out,
                {"reduced": 1 << dim},
                functional=lambda t, op=op, dim=dim: op(t, dim, keepdim=True),
            )
        )
    found.append(
        Case(
            "argmax of 256 x 384 over dimension 1",
            "reduce.argmax",
            [x],
            torch.empty(256, 1, dtype=torch.int64),
            {"reduced": 1 << 1},
            functional=lambda t: t.argmax(1, keepdim=True),
        )
    )
    return found


def rms_norm(weight: torch.Tensor) -> torch.nn.Module:
    norm = torch.nn.RMSNorm(weight.numel(), eps=1e-5, dtype=BF16)
    norm.weight.data = weight
    return norm.eval()


def attention() -> Case:
    q, k, v = (tensor(1, 6, 128, 64) for _ in range(3))
    return Case(
        "attention 6 heads, 128 x 64",
        "attention",
        [q, k, v, None],
        torch.empty_like(q),
        {"scale": 1 / sqrt(64)},
        extra_outputs=1,
        functional=F.scaled_dot_product_attention,
    )


def images() -> list[Case]:
    x, large = image(1, 64, 56, 56), image(1, 64, 112, 112)
    weight, spread = image(64, 64, 3, 3), image(64, 1, 3, 3)
    small = torch.empty_like(x)

    def windows(padding: int, stride: int = 1, groups: int = 1) -> dict[str, Any]:
        spread = {"stride": (stride, stride, 1), "padding": (padding, padding, 0), "dilation": (1, 1, 1)}
        return {"groups": groups, **spread}

    return [
        Case(
            "convolution 3 x 3, 64 channels, 56 x 56",
            "convolution",
            [x, weight, None],
            small,
            windows(padding=1),
            constants=(1,),
            products=98 * 18 * 2,
            functional=lambda i, u: F.conv2d(i, u, padding=1),
        ),
        Case(
            "convolution 7 x 7, stride 2, 3 channels, 224 x 224",
            "convolution",
            [image(1, 3, 224, 224), image(64, 3, 7, 7), None],
            image(1, 64, 112, 112),
            windows(padding=3, stride=2),
            constants=(1,),
            products=392 * 7 * 2,
            functional=lambda i, u: F.conv2d(i, u, padding=3, stride=2),
        ),
        Case(
            "convolution 3 x 3, 512 channels, 7 x 7",
            "convolution",
            [image(1, 512, 7, 7), image(512, 512, 3, 3), None],
            image(1, 512, 7, 7),
            windows(padding=1),
            constants=(1,),
            products=2 * 144 * 16,
            functional=lambda i, u: F.conv2d(i, u, padding=1),
        ),
        Case(
            "depthwise convolution 3 x 3, 64 channels, 56 x 56",
            "convolution",
            [x, spread, None],
            small,
            windows(padding=1, groups=64),
            constants=(1,),
            functional=lambda i, u: F.conv2d(i, u, padding=1, groups=64),
        ),
        Case(
            "max pooling 3 x 3, stride 2, 64 channels, 112 x 112",
            "pool.max",
            [large.unsqueeze(2)],
            small.unsqueeze(2),
            {"kernel": (1, 3, 3), "stride": (1, 2, 2), "padding": (0, 1, 1), "dilation": (1, 1, 1)},
            extra_outputs=1,
            module=torch.nn.MaxPool2d(3, 2, 1),
        ),
        Case(
            "average pooling 2 x 2, 64 channels, 112 x 112",
            "pool.average",
            [large.unsqueeze(2)],
            small.unsqueeze(2),
            {"kernel": (1, 2, 2), "stride": (1, 2, 2), "padding": (0, 0, 0), "count_padding": 1},
            functional=lambda i: F.avg_pool2d(i.squeeze(2), 2),
        ),
    ]


def data() -> list[Case]:
    x, table, index = tensor(256, 384), tensor(1000, 384), torch.arange(0, 896, 7)
    whole = torch.empty(256, 768, dtype=BF16)
    assert prod(index.shape) == 128
    return [
        Case(
            "transpose of 256 x 384",
            "copy",
            [x.t()],
            torch.empty(384, 256, dtype=BF16),
            functional=lambda t: t.contiguous(),
        ),
        Case(
            "copy of 256 x 384 into half of 256 x 768, as concatenation does",
            "copy",
            [x],
            whole[:, :384],
            functional=lambda t: torch.empty(256, 768, dtype=BF16, device=t.device)[:, :384].copy_(t),
        ),
        Case(
            "gather of 128 rows of 384",
            "index_select",
            [table, index],
            torch.empty(128, 384, dtype=BF16),
            {"dim": 0},
            functional=lambda t, i: torch.index_select(t, 0, i),
        ),
    ]
