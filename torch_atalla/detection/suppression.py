# SPDX-License-Identifier: BSD-3-Clause
"""Selection of a fixed number of boxes by non-maximum suppression within classes."""

from __future__ import annotations

import torch
from torch import Tensor

ABSENT = -1.0  # the score of a row without a box: below all thresholds, so that it comes last and suppresses no other


def large_enough(boxes: Tensor, least: float) -> Tensor:
    """Whether both sides of boxes [..., 4] have that length."""
    return ((boxes[..., 2:] - boxes[..., :2]) >= least).all(-1)


def suppressed(
    boxes: Tensor, scores: Tensor, labels: Tensor, threshold: float, size: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The `size` best of boxes [n, 4] that overlap no better one of their label: boxes, scores and labels.

    Boxes with the score ABSENT are left out. What is left of `size` has the score ABSENT, and zeros.
    """
    apart = labels.to(boxes.dtype) * (boxes.max() + 1)  # boxes of different labels do not overlap
    keep = torch.ops.atalla.nms_static(boxes + apart[:, None], scores, threshold, size=size, fill_value=boxes.shape[0])
    pad = torch.nn.functional.pad  # with the row that the fill value names
    scores = pad(scores, (0, 1), value=ABSENT)[keep]
    present = scores >= 0
    boxes = torch.where(present[:, None], pad(boxes, (0, 0, 0, 1))[keep], 0)
    return boxes, scores, torch.where(present, pad(labels, (0, 1))[keep], 0)
