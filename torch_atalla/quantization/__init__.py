# SPDX-License-Identifier: BSD-3-Clause
"""Models in 8 and 4 bits (docs/guides/quantize.md). torch_atalla.quantization is public.

torch_atalla.quantization.pt2e needs torchao, so that it is imported by name.
"""

from typing import TYPE_CHECKING, Any

from .encoding import EncodedWeight, decode, encode

if TYPE_CHECKING:
    from .modules import QuantizedLinear, quantize_weights
else:

    def __getattr__(name: str) -> Any:
        if name not in ("QuantizedLinear", "quantize_weights"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from . import modules  # imported lazily: every `import torch` would wait for it

        return getattr(modules, name)


__all__ = ["EncodedWeight", "QuantizedLinear", "decode", "encode", "quantize_weights"]
