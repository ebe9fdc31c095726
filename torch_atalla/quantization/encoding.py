# SPDX-License-Identifier: BSD-3-Clause
"""Weights in 8 and 4 bits: how numbers become bytes with scales, and back. The kernel `gemm_quantized` reads these
bytes (docs/reference/kernels.md).
"""

from __future__ import annotations

from typing import NamedTuple

import torch

ENCODINGS = ("int8", "int4", "int4_plain", "float8_e4m3fn", "float8_e5m2")
GROUPS = (32, 64, 128, 256)

_FLOAT8 = {"float8_e4m3fn": torch.float8_e4m3fn, "float8_e5m2": torch.float8_e5m2}
_TINY = 1e-12  # the smallest scale: that of a group of zeros


class EncodedWeight(NamedTuple):
    """A weight [n, k]: `weight` is [n, k], or [n, k / 2] with four bits; `scales` and `zeros` are [groups, n]."""

    weight: torch.Tensor
    scales: torch.Tensor
    zeros: torch.Tensor | None


def check_encoding(encoding: str) -> None:
    if encoding not in ENCODINGS:
        raise ValueError(f"expected an encoding of {', '.join(ENCODINGS)}, got {encoding!r}")


def elements_per_byte(encoding: str) -> int:
    return 2 if encoding.startswith("int4") else 1


def encode(weight: torch.Tensor, encoding: str, group: int | None = None) -> EncodedWeight:
    """Encode a floating-point weight [n, k], on its device.

    Args:
        encoding: "int8" and the 8-bit floats have scales, "int4" and "int4_plain" scales and zeros, in the weight's
            dtype.
        group: neighbouring elements of a row that share a scale, which must divide k; None: the whole row.

    Raises:
        ValueError: an unknown encoding, a group that does not divide k, or an odd k in four bits.
    """
    check_encoding(encoding)
    n, k = weight.shape
    group = k if group is None else group
    if group < 1 or k % group or k % elements_per_byte(encoding):
        raise ValueError(f"{encoding}: expected rows of a multiple of {group} elements (the group), got rows of {k}")
    parts = weight.detach().float().reshape(n, k // group, group)
    if elements_per_byte(encoding) == 2:
        return _encode_four_bits(parts, encoding, weight.dtype)
    largest = parts.abs().amax(2)
    top = 127.0 if encoding == "int8" else torch.finfo(_FLOAT8[encoding]).max
    scales = _scale(largest / top, weight.dtype)
    quotients = parts / scales.float()[:, :, None]
    if encoding == "int8":
        values = quotients.round().clamp(-128, 127).to(torch.int8)
    else:
        values = quotients.clamp(-top, top).to(_FLOAT8[encoding])
    return EncodedWeight(values.reshape(n, k), scales.t().contiguous(), None)


def _scale(scales: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """In the dtype in which it is stored, so that values are divided by what they are multiplied by later."""
    return scales.clamp(min=_TINY).to(dtype)


def _encode_four_bits(parts: torch.Tensor, encoding: str, dtype: torch.dtype) -> EncodedWeight:
    """Values from -8 to 7; the smallest element of a group is -8 * scale + zero, the largest one 7 * scale + zero."""
    low, high = parts.amin(2), parts.amax(2)
    scales = _scale((high - low) / 15, dtype)
    zeros = (low + 8 * scales.float()).to(dtype)
    quotients = (parts - zeros.float()[:, :, None]) / scales.float()[:, :, None]
    values = quotients.round().clamp(-8, 7).to(torch.int16)
    return EncodedWeight(
        pack(values.reshape(len(parts), -1), encoding), scales.t().contiguous(), zeros.t().contiguous()
    )


def pack(values: torch.Tensor, encoding: str) -> torch.Tensor:
    """Integers [n, k] from -8 to 7 as bytes [n, k / 2]."""
    even, odd = values[:, ::2].to(torch.int16), values[:, 1::2].to(torch.int16)
    if encoding == "int4":
        return ((even + 8) * 16 + (odd + 8)).to(torch.uint8)
    return ((odd & 15) * 16 + (even & 15)).to(torch.uint8)


def unpack(weight: torch.Tensor, encoding: str) -> torch.Tensor:
    """The values of the bytes in float32, [n, k]."""
    if encoding == "int8":
        return weight.float()
    if encoding in _FLOAT8:
        return weight.view(_FLOAT8[encoding]).float()
    wide = weight.view(torch.uint8).to(torch.int16)
    upper, lower = wide >> 4, wide & 15
    if encoding == "int4":
        pairs = torch.stack([upper - 8, lower - 8], 2)
    else:
        pairs = torch.stack([(lower ^ 8) - 8, (upper ^ 8) - 8], 2)
    return pairs.reshape(len(weight), -1).float()


def decode(weight: torch.Tensor, scales: torch.Tensor, zeros: torch.Tensor | None, encoding: str) -> torch.Tensor:
    """The weight [n, k] in float32."""
    values = unpack(weight, encoding)
    (n, k), groups = values.shape, len(scales)
    parts = values.reshape(n, groups, k // groups) * scales.float().t()[:, :, None]
    if zeros is not None:
        parts = parts + zeros.float().t()[:, :, None]
    return parts.reshape(n, k)
