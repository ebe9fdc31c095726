# SPDX-License-Identifier: BSD-3-Clause
"""torch.ops.atalla.nms_static: non-maximum suppression whose result has a fixed size, as loadables need it."""

from __future__ import annotations

import torch
from torch import Tensor

_library = torch.library.Library("atalla", "FRAGMENT")  # a definition ends with its library
SCHEMA = "nms_static(Tensor dets, Tensor scores, float iou_threshold, *, int size, int fill_value=-1) -> Tensor"


def _on_cpu(dets: Tensor, scores: Tensor, iou_threshold: float, *, size: int, fill_value: int = -1) -> Tensor:
    torch._check(size >= 0, lambda: f"nms_static: expected a size of 0 or more, got {size}")
    from .libraries import torchvision_cpu  # imported lazily: every `import torch` would wait for it

    kept = torchvision_cpu.nms(dets, scores, iou_threshold)[:size]
    return torch.nn.functional.pad(kept, (0, size - len(kept)), value=fill_value)


def _meta(dets: Tensor, scores: Tensor, iou_threshold: float, *, size: int, fill_value: int = -1) -> Tensor:
    return dets.new_empty(size, dtype=torch.int64)


def install() -> None:
    """Define the op. The device's kernel is in csrc/aten/kernels/region/nms.cpp."""
    _library.define(SCHEMA, tags=(torch.Tag.pt2_compliant_tag,))
    _library.impl("nms_static", _on_cpu, "CPU")
    _library.impl("nms_static", _meta, "Meta")
