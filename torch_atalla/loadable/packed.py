# SPDX-License-Identifier: BSD-3-Clause
"""Packed matrices: panels of 32 columns, the layout of the kernels `gemm_packed` and `convolution_packed`."""

from __future__ import annotations

import torch

PANEL = 32


def pack(matrix: torch.Tensor) -> torch.Tensor:
    """Pack a matrix [n, k] into panels [ceil(n / 32), k, 32]. The last panel is padded with zeros."""
    n, k = matrix.shape
    panels = -(-n // PANEL)
    packed = matrix.new_empty((panels, k, PANEL))
    whole = n // PANEL
    packed[:whole] = matrix[: whole * PANEL].view(whole, PANEL, k).transpose(1, 2)
    if whole < panels:
        packed[whole] = 0
        packed[whole, :, : n - whole * PANEL] = matrix[whole * PANEL :].t()
    return packed
