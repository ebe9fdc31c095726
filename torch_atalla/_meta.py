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
    _attention_flops()


def _convolution_layouts() -> None:
    """Fake convolutions of the device give the strides of real ones: channels last, if the input is.

    Upstream asks its list of libraries for the memory format and takes any other backend to be contiguous.
    """
    table = fake_impls.op_implementations_dict
    for op in (aten.convolution.default, aten._convolution.default, aten._convolution.deprecated):
        original = table[op]

        def convolution(mode: Any, func: Any, *args: Any, _original: Any = original, **kwargs: Any) -> Any:
            out = _original(mode, func, *args, **kwargs)
            source = kwargs["input"] if "input" in kwargs else args[0]
            if source.fake_device.type != "atalla" or source.dim() not in (4, 5):
                return out
            last = torch.channels_last if source.dim() == 4 else torch.channels_last_3d
            if torch._prims_common.suggest_memory_format(source) != last:
                return out
            with mode:
                return out.to(memory_format=last)

        table[op] = convolution


def _attention_flops() -> None:
    @flop_counter.register_flop_formula(aten._scaled_dot_product_fused_attention_overrideable)
    def attention_flops(query: Any, key: Any, value: Any, *args: Any, out_shape: Any = None, **kwargs: Any) -> int:
        return flop_counter.sdpa_flop_count(query, key, value)
