# SPDX-License-Identifier: BSD-3-Clause
"""torchao: products of its quantized weights on the device are launches of `gemm_quantized` and integer `gemm`.

Without this file, torchao converts weights at every call, copies integer operands to the CPU whose sizes are no
multiples of 8, and makes four-bit weights for CUDA, XPU and NPU only. Products are added by torchao's own table of
overrides (`TensorClass.implements_torch_function`); tensors on other devices keep its functions.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch
from torch.nn import functional as F

from torch_atalla.quantization.encoding import encode

from .patching import replaces

aten = torch.ops.aten
Product = Callable[[torch.Tensor, Any, torch.Tensor | None], torch.Tensor | None]


def _add_product(cls: Any, product: Product) -> None:
    """Of a linear layer on the device, where `product` has a kernel for the weight; otherwise torchao's own."""

    def override(original: Any) -> Any:
        def linear(func: Any, types: Any, args: Any, kwargs: Any) -> Any:
            x, weight, bias = args[0], args[1], args[2] if len(args) > 2 else (kwargs or {}).get("bias")
            if isinstance(weight, cls) and not isinstance(x, cls) and x.device.type == "atalla" and weight.ndim == 2:
                pre_scale = getattr(weight, "act_pre_scale", None)  # of AWQ and SmoothQuant
                found = product(x if pre_scale is None else x * pre_scale, weight, bias)
                if found is not None:
                    return found
            return original(func, types, args, kwargs)

        return linear

    cls.implements_torch_function(F.linear)(override(cls._TORCH_FN_TABLE[cls][F.linear]))
    cls.implements(aten.linear.default)(override(cls._ATEN_OP_TABLE[cls][aten.linear.default]))


def _by_row(scale: torch.Tensor, n: int) -> torch.Tensor:
    """Scales [n or 1, groups] as the kernel reads them: [groups, n]."""
    return scale.reshape(scale.shape[0], -1).t().expand(-1, n)


def _zeros(weight: Any) -> torch.Tensor | None:
    """What is added to `q * scale` for q - zero_point, of weights in groups. Whole rows are symmetric in torchao."""
    if weight.zero_point is None or weight.block_size[-1] == weight.qdata.shape[-1]:
        return None
    return _by_row(-(weight.zero_point.to(weight.scale.dtype) * weight.scale), len(weight.qdata))


def _int8(module: ModuleType) -> None:
    """Weights in int8 with activations as they are. torchao's own product of activations in int8 is `safe_int_mm`."""

    def product(x: torch.Tensor, weight: Any, bias: torch.Tensor | None) -> torch.Tensor | None:
        if weight.act_quant_kwargs is not None:
            return None
        scales = _by_row(weight.scale, len(weight.qdata))
        return torch.ops.atalla.quantized_linear(x, weight.qdata, scales, _zeros(weight), bias, "int8")

    _add_product(module.Int8Tensor, product)


def _intx(module: ModuleType) -> None:
    """Weights of 1 to 8 bits that are stored in int8."""

    def product(x: torch.Tensor, weight: Any, bias: torch.Tensor | None) -> torch.Tensor | None:
        if weight.activation_quantization is not None or weight.block_size[0] != 1:
            return None
        scales = weight.scale.reshape(len(weight.qdata), -1)
        zeros = -(weight.zero_point.to(scales.dtype).reshape_as(scales) * scales)
        return torch.ops.atalla.quantized_linear(x, weight.qdata, scales.t(), zeros.t(), bias, "int8")

    _add_product(module.IntxUnpackedToInt8Tensor, product)


def _int4(module: ModuleType) -> None:
    """Weights in int4 of the format "plain", whose products and conversion otherwise need the library mslk and CUDA."""

    def from_hp(original: Any) -> Any:
        def encoded(cls: Any, w: torch.Tensor, block_size: list[int], *args: Any, **kwargs: Any) -> Any:
            if w.device.type != "atalla" or w.ndim != 2 or args or kwargs:
                return original.__func__(cls, w, block_size, *args, **kwargs)
            weight, scales, zeros = encode(w, "int4_plain", block_size[-1])
            return cls(weight.view(torch.int8), scales, zeros, block_size, w.shape)

        return classmethod(encoded)

    def product(x: torch.Tensor, weight: Any, bias: torch.Tensor | None) -> torch.Tensor | None:
        if weight.activation_dtype != torch.bfloat16:
            return None
        bytes_ = weight.qdata.view(torch.uint8)
        return torch.ops.atalla.quantized_linear(x, bytes_, weight.scale, weight.zero_point, bias, "int4_plain")

    module.Int4Tensor.from_hp = from_hp(vars(module.Int4Tensor)["from_hp"])
    _add_product(module.Int4Tensor, product)


def _float8(module: ModuleType) -> None:
    """Weights in float8 by row or as a whole, with activations as they are."""

    def product(x: torch.Tensor, weight: Any, bias: torch.Tensor | None) -> torch.Tensor | None:
        n, k = weight.qdata.shape
        encoding = str(weight.qdata.dtype).removeprefix("torch.")
        if weight.act_quant_kwargs is not None or weight.scale.shape not in ((n, 1), (1, 1), ()):
            return None
        scales = _by_row(weight.scale.reshape(-1, 1), n)
        return torch.ops.atalla.quantized_linear(x, weight.qdata, scales, None, bias, encoding)

    _add_product(module.Float8Tensor, product)


def _integers(module: ModuleType) -> None:
    """Products of integers, of any sizes."""

    @replaces(module, "safe_int_mm")
    def product(original: Any, input: torch.Tensor, mat2: torch.Tensor) -> torch.Tensor:  # noqa: A002 (torchao's name)
        return torch._int_mm(input, mat2) if input.device.type == "atalla" else original(input, mat2)


_WORKFLOWS = "torchao.quantization.quantize_.workflows"
ADAPTED = {
    f"{_WORKFLOWS}.int8.int8_tensor": _int8,
    f"{_WORKFLOWS}.intx.intx_unpacked_to_int8_tensor": _intx,
    f"{_WORKFLOWS}.int4.int4_tensor": _int4,
    f"{_WORKFLOWS}.float8.float8_tensor": _float8,
    "torchao.kernel.intmm": _integers,
}
