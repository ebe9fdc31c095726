# SPDX-License-Identifier: BSD-3-Clause
"""What upstream's meta functions and FLOP formulas need to know of the device."""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses import fake_impls
from torch.utils import flop_counter

aten = torch.ops.aten


def install() -> None:
    _convolution_layouts()
    _attention_layout()
    _attention_flops()


def _convolution_format(source: Any, weight: Any, stride: Any, padding: Any, groups: Any) -> torch.memory_format:
    """`convolution_format` of csrc/aten/kernels/matrix/convolution.cpp for fake tensors."""
    for tensor in (source, weight):
        suggested = torch._prims_common.suggest_memory_format(tensor)
        if suggested == torch.channels_last:
            return suggested
        if suggested == torch.channels_last_3d and source.dtype != torch.float64:
            n, c, d, h = source.shape[:4]
            if any(p >= s for p, s in zip(padding, stride)):
                continue
            large = groups > 1 or n > 1 or (weight.shape[3] > 3 and weight.shape[4] > 3) or n * c * d * h > 20480
            if source.dtype != torch.float32 or large:
                return suggested
    return torch.contiguous_format


def _convolution_layouts() -> None:
    """Fake convolutions of the device give the strides of real ones: channels last, if input or weight is.

    Upstream asks its list of libraries for the memory format and takes any other backend to be contiguous.
    """
    table = fake_impls.op_implementations_dict
    for op in (aten.convolution.default, aten._convolution.default, aten._convolution.deprecated):
        original = table[op]

        def convolution(mode: Any, func: Any, *args: Any, _original: Any = original, **kwargs: Any) -> Any:
            out = _original(mode, func, *args, **kwargs)
            given = dict(zip((a.name for a in func._schema.arguments), args)) | kwargs
            source, weight = given["input"], given["weight"]
            if source.fake_device.type != "atalla" or source.dim() not in (4, 5):
                return out
            padding = given["output_padding"] if given["transposed"] else ()
            last = _convolution_format(source, weight, given["stride"], padding, given["groups"])
            if last == torch.contiguous_format:
                return out
            with mode:
                return out.to(memory_format=last)

        table[op] = convolution


def _attention_layout() -> None:
    """Fake fused attention gives the strides of the real one: the query's, where the CPU would take its flash kernel,
    otherwise contiguous ones. Upstream's meta function always takes the query's.
    """

    def attention(
        mode: Any,
        func: Any,
        query: Any,
        key: Any,
        value: Any,
        attn_bias: Any = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        return_debug_mask: bool = False,
        *,
        scale: float | None = None,
    ) -> Any:
        b, heads, length, _ = query.shape
        with mode:

            def on_host(t: Any) -> Any:
                return torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="cpu")

            parts = [on_host(t) for t in (query, key, value)]
            mask = None if attn_bias is None else on_host(attn_bias)
            grouped = heads != key.shape[1]
            try:
                q, k, v = parts
                choice = torch._fused_sdp_choice(q, k, v, mask, dropout_p, is_causal, scale=scale, enable_gqa=grouped)
                flash = choice == torch.nn.attention.SDPBackend.FLASH_ATTENTION.value
            except RuntimeError:  # the CPU's backends are switched off
                flash = False
            out = torch.empty_like(query) if flash else query.new_empty((b, heads, length, value.shape[3]))
            logsumexp = query.new_empty((b, heads, length), dtype=torch.float32)
            none = query.new_empty((0,), dtype=torch.int64)
            return out, logsumexp, None, None, length, key.shape[2], none, none, query.new_empty((0,))

    fake_impls.op_implementations_dict[aten._scaled_dot_product_fused_attention_overrideable.default] = attention


def _attention_flops() -> None:
    @flop_counter.register_flop_formula(aten._scaled_dot_product_fused_attention_overrideable)
    def attention_flops(query: Any, key: Any, value: Any, *args: Any, out_shape: Any = None, **kwargs: Any) -> int:
        return flop_counter.sdpa_flop_count(query, key, value)
