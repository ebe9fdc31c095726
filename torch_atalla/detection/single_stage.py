# SPDX-License-Identifier: BSD-3-Clause
"""The selection of boxes of RetinaNet, FCOS and SSD."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from .suppression import ABSENT, suppressed

Candidates = list[tuple[Tensor, Tensor, Tensor]]  # boxes, scores and labels of parts of an image


def detections(model: Any, batch: Any, features: dict[str, Tensor]) -> list[dict[str, Tensor]]:
    """Boxes, scores and labels of each image, in pixels of the resized images."""
    from torchvision.models.detection.ssd import SSD

    maps = list(features.values())
    outputs = model.head(maps)
    anchors = model.anchor_generator(batch, maps)
    candidates = _of_classes if isinstance(model, SSD) else _of_levels
    results = []
    for i, size in enumerate(batch.image_sizes):
        output = {name: values[i] for name, values in outputs.items()}
        parts = candidates(model, output, anchors[i], maps, size)
        boxes, scores, labels = (torch.cat(tensors) for tensors in zip(*parts, strict=True))
        found = suppressed(boxes, scores, labels, model.nms_thresh, model.detections_per_img)
        results.append(dict(zip(("boxes", "scores", "labels"), found, strict=True)))
    return results


def _best(model: Any, scores: Tensor) -> tuple[Tensor, Tensor]:
    scores = torch.where(scores > model.score_thresh, scores, ABSENT)
    values, places = scores.topk(min(model.topk_candidates, scores.shape[0]))
    return values, places


def _of_classes(
    model: Any, output: dict[str, Tensor], anchors: Tensor, maps: list[Tensor], size: tuple[int, int]
) -> Candidates:
    """SSD: the best boxes of each class."""
    from torchvision.ops.boxes import clip_boxes_to_image

    boxes = clip_boxes_to_image(model.box_coder.decode_single(output["bbox_regression"], anchors), size)
    probabilities = output["cls_logits"].softmax(-1)
    found = []
    for label in range(1, probabilities.shape[1]):
        scores, places = _best(model, probabilities[:, label])
        found.append((boxes[places], scores, torch.full_like(places, label)))
    return found


def _of_levels(
    model: Any, output: dict[str, Tensor], anchors: Tensor, maps: list[Tensor], size: tuple[int, int]
) -> Candidates:
    """RetinaNet and FCOS: the best boxes of each feature map, of all classes."""
    from torchvision.models.detection.fcos import FCOS
    from torchvision.ops.boxes import clip_boxes_to_image

    scores, moved = output["cls_logits"].sigmoid(), output["bbox_regression"]
    if "bbox_ctrness" in output:
        scores = (scores * output["bbox_ctrness"].sigmoid()).sqrt()
    cells = [feature.shape[2] * feature.shape[3] for feature in maps]
    counts = [cell * (scores.shape[0] // sum(cells)) for cell in cells]
    decode = model.box_coder.decode if isinstance(model, FCOS) else model.box_coder.decode_single
    found = []
    for level_scores, level_moved, level_anchors in zip(*(t.split(counts) for t in (scores, moved, anchors))):
        best, places = _best(model, level_scores.flatten())
        place = places // level_scores.shape[1]
        boxes = clip_boxes_to_image(decode(level_moved[place], level_anchors[place]), size)
        found.append((boxes, best, places % level_scores.shape[1]))
    return found
