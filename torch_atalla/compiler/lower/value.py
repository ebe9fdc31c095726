# SPDX-License-Identifier: BSD-3-Clause
"""Tensors of a program that is being lowered."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..program.ir import Operand
from ..program.sizes import to_size


@dataclass(frozen=True)
class Value:
    """A tensor: a buffer, and a meta tensor whose sizes, strides and storage offset say which part of it.

    Upstream's own view ops run on the meta tensor, so that no view rule is written twice.
    """

    buffer: int
    meta: torch.Tensor

    @property
    def dtype(self) -> torch.dtype:
        return self.meta.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.meta.shape)

    @property
    def ndim(self) -> int:
        return self.meta.ndim

    def operand(self) -> Operand:
        meta = self.meta
        sizes, strides = tuple(map(to_size, meta.shape)), tuple(map(to_size, meta.stride()))
        offset = to_size(meta.storage_offset()) * meta.dtype.itemsize
        return Operand(self.buffer, offset, sizes, strides, meta.dtype)

    def view(self, meta: torch.Tensor) -> Value:
        return Value(self.buffer, meta)

    def expand(self, sizes: tuple[int, ...]) -> Value:
        if tuple(map(to_size, sizes)) == self.operand().sizes:
            return self  # upstream's function would add conditions on symbolic sizes
        return self.view(self.meta.expand(sizes))

    def unsqueeze(self, dim: int) -> Value:
        return self.view(self.meta.unsqueeze(dim))
