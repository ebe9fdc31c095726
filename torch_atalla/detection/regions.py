# SPDX-License-Identifier: BSD-3-Clause
"""The two stages of Faster R-CNN and its relatives: proposals, and the classes and boxes of these regions."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from . import heads
from .suppression import ABSENT, large_enough, suppressed

Sizes = list[tuple[int, int]]
_LEAST_SIDE = 1e-2  # torchvision.models.detection.roi_heads removes detections with a shorter side


def detections(model: Any, batch: Any, features: dict[str, Tensor]) -> list[dict[str, Tensor]]:
    """The results of each image, in pixels of the resized images."""
    proposals = _proposals(model.rpn, batch, features)
    head = model.roi_heads
    results = _classified(head, features, proposals, batch.image_sizes)
    boxes = [result["boxes"] for result in results]
    if head.has_mask():
        pooled = _pooled(head.mask_roi_pool, features, boxes, batch.image_sizes)
        logits = head.mask_predictor(head.mask_head(pooled))
        heads.add_masks(results, logits)
    if head.has_keypoint():
        pooled = _pooled(head.keypoint_roi_pool, features, boxes, batch.image_sizes)
        logits = head.keypoint_predictor(head.keypoint_head(pooled))
        heads.add_keypoints(results, logits, batch.image_sizes)
    return results


def _proposals(rpn: Any, batch: Any, features: dict[str, Tensor]) -> list[tuple[Tensor, Tensor]]:
    """Boxes and scores of the regions of each image."""
    from torchvision.models.detection.rpn import concat_box_prediction_layers
    from torchvision.ops.boxes import clip_boxes_to_image

    maps = list(features.values())
    objectness, moved = rpn.head(maps)
    anchors = rpn.anchor_generator(batch, maps)
    counts = [math.prod(scores.shape[1:]) for scores in objectness]
    objectness, moved = concat_box_prediction_layers(objectness, moved)
    boxes = rpn.box_coder.decode(moved, anchors).view(len(anchors), -1, 4)
    objectness = objectness.reshape(len(anchors), -1)
    best = rpn._get_top_n_idx(objectness, counts)
    levels = torch.cat([best.new_full((count,), level) for level, count in enumerate(counts)])
    size = min(rpn.post_nms_top_n(), best.shape[1])
    found = []
    for i, image_size in enumerate(batch.image_sizes):
        chosen = clip_boxes_to_image(boxes[i][best[i]], image_size)
        scores = objectness[i][best[i]].sigmoid()
        right = large_enough(chosen, rpn.min_size) & (scores >= rpn.score_thresh)
        scores = torch.where(right, scores, ABSENT)
        chosen, scores, _ = suppressed(chosen, scores, levels[best[i]], rpn.nms_thresh, size)
        found.append((chosen, scores))
    return found


def _classified(
    head: Any, features: dict[str, Tensor], proposals: list[tuple[Tensor, Tensor]], sizes: Sizes
) -> list[dict[str, Tensor]]:
    from torchvision.ops.boxes import clip_boxes_to_image

    regions = [boxes for boxes, _ in proposals]
    pooled = _pooled(head.box_roi_pool, features, regions, sizes)
    logits, moved = head.box_predictor(head.box_head(pooled))
    count = len(regions[0])
    every_box = head.box_coder.decode(moved, regions).split(count)
    results = []
    for i, probabilities in enumerate(logits.softmax(-1).split(count)):
        boxes = clip_boxes_to_image(every_box[i], sizes[i])[:, 1:].reshape(-1, 4)
        scores = torch.where(proposals[i][1][:, None] >= 0, probabilities[:, 1:], ABSENT)
        labels = torch.arange(1, logits.shape[1], device=logits.device).expand_as(scores).reshape(-1)
        scores = scores.reshape(-1)
        right = (scores > head.score_thresh) & large_enough(boxes, _LEAST_SIDE)
        scores = torch.where(right, scores, ABSENT)
        boxes, scores, labels = suppressed(boxes, scores, labels, head.nms_thresh, head.detections_per_img)
        results.append({"boxes": boxes, "labels": labels, "scores": scores})
    return results


def _pooled(pool: Any, features: dict[str, Tensor], boxes: list[Tensor], sizes: Sizes) -> Tensor:
    """The regions' features [k, c, p, q], each from the map whose scale fits the region's size.

    torchvision divides the regions among the maps first. Here every map is sampled for all regions, since the number
    of regions of a map is data.
    """
    from torchvision.ops import roi_align
    from torchvision.ops.poolers import initLevelMapper

    maps = [features[name] for name in features if name in pool.featmap_names]
    extent = max(height for height, _ in sizes)
    exponents = [round(math.log2(each.shape[2] / extent)) for each in maps]
    found = [
        roi_align(each, boxes, pool.output_size, 2.0**exponent, pool.sampling_ratio)
        for each, exponent in zip(maps, exponents, strict=True)
    ]
    if len(maps) == 1:
        return found[0]
    chosen = initLevelMapper(-exponents[0], -exponents[-1], pool.canonical_scale, pool.canonical_level)(boxes)
    result = found[0]
    for level, values in enumerate(found[1:], 1):
        result = torch.where((chosen == level)[:, None, None, None], values, result)
    return result
