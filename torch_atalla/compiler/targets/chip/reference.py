# SPDX-License-Identifier: BSD-3-Clause
"""Nodes of a graph in float64, with the choices that the chip makes where PyTorch leaves a result open."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from ...capture.stable_order import STABLE
from ...lower.recorded import ACTIVATION_KEY

aten = torch.ops.aten

_ACTIVATIONS: dict[str, Any] = {
    "relu": torch.relu,
    "gelu_erf": torch.nn.functional.gelu,
    "gelu_tanh": partial(torch.nn.functional.gelu, approximate="tanh"),
    "silu": torch.nn.functional.silu,
}


def call(node: torch.fx.Node, args: Any, kwargs: Any, changed: Any) -> Any:
    """The result of a node. changed: moves a value that the chip rounds."""
    target: Any = node.target
    if target in (aten.view.default, aten._unsafe_view.default):
        return args[0].reshape(args[1])
    if target is aten.scaled_dot_product_attention.default:
        return _attention(*args, **kwargs, changed=changed)
    if target is aten.layer_norm.default:
        return _layer_norm(*args, changed=changed)
    if target is aten.native_layer_norm.default:
        return (_layer_norm(*args, changed=changed), *target(*args)[1:])
    if target is aten._grouped_mm.default:  # upstream has none in float64
        single = [x.float() if isinstance(x, torch.Tensor) and x.is_floating_point() else x for x in args]
        return target(*single, **kwargs).double()
    if target is aten.binary_cross_entropy.default:  # which refuses probabilities beyond 0 and 1
        args = (args[0].clamp(0, 1), args[1].clamp(0, 1), *args[2:])
    if target in (aten.native_group_norm.default, aten._pdist_forward.default):  # which refuse other strides
        args = (args[0].contiguous(), *args[1:])
    if target is aten.convolution.default and 0 in node.meta["val"].shape:  # which only bfloat16 has on the CPU
        return args[0].new_empty(tuple(node.meta["val"].shape))
    if target in STABLE:
        return STABLE[target](*args, **kwargs)
    if target in _VARIANCE_AND_MEAN:
        return _variance_and_mean(target, *args, **kwargs)
    result = target(*args, **kwargs)
    activation = node.meta.get(ACTIVATION_KEY)
    return _ACTIVATIONS[activation](changed(result)) if activation else result


_VARIANCE_AND_MEAN = (aten.var_mean.correction, aten.std_mean.correction)


def _variance_and_mean(op: Any, x: torch.Tensor, dim: list[int] | None = None, **kwargs: Any) -> Any:
    """With the sum's mean: the CPU's running one is NaN after an infinity."""
    return op(x, dim, **kwargs)[0], x.mean(dim, kwargs.get("keepdim", False))


def _layer_norm(
    x: torch.Tensor,
    shape: list[int],
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    eps: float = 1e-5,
    *_: Any,
    changed: Any,
) -> torch.Tensor:
    """In parts: the mean is rounded before it is subtracted, which matters where a row's elements are alike."""
    dims = tuple(range(-len(shape), 0))
    centred = changed(x - changed(x.mean(dims, keepdim=True)))
    y = changed(centred * (centred.square().mean(dims, keepdim=True) + eps).rsqrt())
    y = y if weight is None else changed(y * weight)
    return y if bias is None else y + bias


def _attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    mask: torch.Tensor | None = None,
    dropout: float = 0.0,
    causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
    changed: Any,
    **_: Any,
) -> torch.Tensor:
    """In parts, since scores are rounded as well."""
    if enable_gqa:
        k, v = (x.repeat_interleave(q.shape[-3] // x.shape[-3], -3) for x in (k, v))
    scores = changed(q @ k.transpose(-2, -1) * (q.shape[-1] ** -0.5 if scale is None else scale))
    if causal:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype is torch.bool else changed(scores + mask)
    without_keys = (scores == -torch.inf).all(-1, keepdim=True)  # such a row gives zeros
    weights = torch.softmax(scores, -1).masked_fill(without_keys, 0.0)
    return changed(weights) @ v
