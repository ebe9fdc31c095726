# SPDX-License-Identifier: BSD-3-Clause
"""Models in 8 and 4 bits (docs/guides/quantize.md). torch_atalla.quantization is public."""

from .encoding import EncodedWeight, decode, encode
from .modules import QuantizedLinear, quantize_weights

__all__ = ["EncodedWeight", "QuantizedLinear", "decode", "encode", "quantize_weights"]
# torch_atalla.quantization.pt2e needs torchao, so that it is imported by name.
