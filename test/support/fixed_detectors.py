# SPDX-License-Identifier: BSD-3-Clause
"""torchvision's detectors of one stage with results of a fixed size, so that they can be exported as a whole.

torchvision selects boxes by comparing scores with a threshold, which gives tensors whose sizes are data. Here, boxes
below the threshold get the score -1 instead, with which they come last and suppress no other.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torchvision.models.detection.fcos import FCOS
from torchvision.models.detection.image_list import ImageList
from torchvision.models.detection.ssd import SSD
from torchvision.ops.boxes import clip_boxes_to_image


class FixedDetector(nn.Module):
    """A detector whose input [1, 3, h, w] has the size to which the model resizes its images.

    The results are boxes [d, 4], scores [d] and labels [d], with d the model's `detections_per_img`. Scores of places
    without a detection are -1.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        model = self.model
        size = (image.shape[2], image.shape[3])
        normalized = model.transform.normalize(image)
        rest = [-side % model.transform.size_divisible for side in size]
        padded = nn.functional.pad(normalized, (0, rest[1], 0, rest[0]))
        features = list(model.backbone(padded).values())
        outputs = model.head(features)
        (anchors,) = model.anchor_generator(ImageList(padded, [size]), features)
        select = self._by_class if isinstance(model, SSD) else self._by_level
        found = select(outputs, anchors, features, size)
        boxes, scores, labels = (torch.cat(parts) for parts in zip(*found, strict=True))
        apart = labels.to(boxes.dtype) * (boxes.max() + 1)  # boxes of different classes do not overlap
        keep = torch.ops.atalla.nms_static(
            boxes + apart[:, None], scores, model.nms_thresh, size=model.detections_per_img, fill_value=len(boxes)
        )
        pad = nn.functional.pad  # with what the fill value names
        return pad(boxes, (0, 0, 0, 1))[keep], pad(scores, (0, 1), value=-1)[keep], pad(labels, (0, 1))[keep]

    def _best(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        scores = torch.where(scores > self.model.score_thresh, scores, -1)
        best = scores.topk(min(self.model.topk_candidates, len(scores)))
        return best.values, best.indices

    def _by_class(
        self, outputs: dict[str, Tensor], anchors: Tensor, features: list[Tensor], size: tuple[int, int]
    ) -> list[tuple[Tensor, ...]]:
        boxes = self.model.box_coder.decode_single(outputs["bbox_regression"][0], anchors)
        boxes = clip_boxes_to_image(boxes, size)
        probabilities = outputs["cls_logits"][0].softmax(-1)
        found = []
        for label in range(1, probabilities.shape[1]):
            scores, places = self._best(probabilities[:, label])
            found.append((boxes[places], scores, torch.full_like(places, label)))
        return found

    def _by_level(
        self, outputs: dict[str, Tensor], anchors: Tensor, features: list[Tensor], size: tuple[int, int]
    ) -> list[tuple[Tensor, ...]]:
        scores, moved = outputs["cls_logits"][0].sigmoid(), outputs["bbox_regression"][0]
        if "bbox_ctrness" in outputs:
            scores = (scores * outputs["bbox_ctrness"][0].sigmoid()).sqrt()
        cells = [feature.shape[2] * feature.shape[3] for feature in features]
        counts = [cell * (len(scores) // sum(cells)) for cell in cells]
        coder = self.model.box_coder
        decode = coder.decode if isinstance(self.model, FCOS) else coder.decode_single
        found = []
        for level_scores, level_moved, level_anchors in zip(*(t.split(counts) for t in (scores, moved, anchors))):
            best, places = self._best(level_scores.flatten())
            place = places // level_scores.shape[1]
            boxes = clip_boxes_to_image(decode(level_moved[place], level_anchors[place]), size)
            found.append((boxes, best, places % level_scores.shape[1]))
        return found
