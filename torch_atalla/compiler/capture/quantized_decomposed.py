# SPDX-License-Identifier: BSD-3-Clause
"""The ops of torchao and of the graphs that its PT2E flow converts, as what eager mode computes for them: their own
functions (of PT2E's ops torch.ao.quantization.fx._decomposed), taken apart into pointwise ops.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
import torch._export.utils

_MODULE = "torch.ao.quantization.fx._decomposed"  # defines the ops; graphs have them only if it was imported
_FUNCTIONS = (
    *("quantize_per_tensor", "dequantize_per_tensor", "quantize_per_channel", "dequantize_per_channel"),
    *("quantize_per_token", "dequantize_per_token", "fake_quant_per_channel"),
)


def _quantize_by_tensors(
    input: torch.Tensor,  # noqa: A002 (the schema's name)
    scale: torch.Tensor,
    zero_point: torch.Tensor,
    quant_min: int,
    quant_max: int,
    dtype: torch.dtype,
) -> torch.Tensor:
    """Upstream's function reads the scale as a number, whose reciprocal has float64 and meets the input in float32."""
    factor = (1.0 / scale.reshape(()).double()).float()
    rounded = torch.round(input.float() * factor) + zero_point.reshape(())
    return torch.clamp(rounded, quant_min, quant_max).to(dtype)


def _dequantize_by_tensors(
    input: torch.Tensor,  # noqa: A002
    scale: torch.Tensor,
    zero_point: torch.Tensor,
    quant_min: int,
    quant_max: int,
    dtype: torch.dtype,
    *,
    out_dtype: torch.dtype | None = None,
) -> torch.Tensor:
    found = (input.to(out_dtype or torch.float32) - zero_point.reshape(())) * scale.reshape(()).float()
    return found.to(out_dtype or torch.float32)


def _choose(symmetric: bool) -> Callable:
    """Scale and zero point of a tensor. Upstream's function first asks whether the extremes are numbers."""

    def choose(
        input: torch.Tensor,  # noqa: A002
        quant_min: int,
        quant_max: int,
        eps: float,
        dtype: torch.dtype,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        low, high = torch.aminmax(input)
        low, high = torch.min(low, torch.zeros_like(low)), torch.max(high, torch.zeros_like(high))
        smallest, steps = torch.full((1,), eps, device=input.device), float(quant_max - quant_min)
        if symmetric:
            scale = torch.max(torch.max(-low, high) / (steps / 2), smallest)
            middle = 128 if dtype == torch.uint8 else 0
            zero_point = torch.full((1,), middle, dtype=torch.int64, device=input.device)
        else:
            scale = torch.max((high - low) / steps, smallest)
            zero_point = torch.clamp(quant_min - torch.round(low / scale).to(torch.int32), quant_min, quant_max)
        return scale.to(torch.float64), zero_point.to(torch.int64)

    return choose


def _composites_of_torchao() -> dict[Any, Callable]:
    """torch.export's table has those of libraries that were imported before it was made."""
    found: dict[Any, Callable] = {}
    if "torchao" not in sys.modules:
        return found
    for name in dir(torch.ops.torchao):
        packet = getattr(torch.ops.torchao, name)
        for overload in packet.overloads() if isinstance(packet, torch._ops.OpOverloadPacket) else ():
            op = getattr(packet, overload)
            if torch._export.utils._is_cia_op(op):
                found[op] = torch._export.utils._get_decomp_for_cia(op)
    return found


def quantized_decompositions() -> dict[Any, Callable]:
    found = _composites_of_torchao()
    module = sys.modules.get(_MODULE)
    if module is None:
        return found
    ops = torch.ops.quantized_decomposed
    found |= {getattr(ops, name).default: getattr(module, name) for name in _FUNCTIONS if hasattr(module, name)}
    found[ops.choose_qparams.tensor] = _choose(symmetric=False)
    found[ops.choose_qparams_symmetric.tensor] = _choose(symmetric=True)
    found[ops.quantize_per_tensor.tensor] = _quantize_by_tensors
    found[ops.dequantize_per_tensor.tensor] = _dequantize_by_tensors
    return found
