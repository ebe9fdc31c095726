# SPDX-License-Identifier: BSD-3-Clause
"""A detector whose results have fixed sizes."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from . import heads, regions, single_stage


class FixedDetector(nn.Module):
    """Run a detector of `torchvision.models.detection` with results of fixed sizes.

    torchvision selects boxes by comparing scores with a threshold, which gives tensors whose sizes are data, and which
    torch.export therefore refuses. This module computes the same detections. Its bounds are the model's own:
    `detections_per_img` rows per image and, in detectors of two stages, `rpn_post_nms_top_n_test` proposals. A row
    without a detection has the score -1, and zeros otherwise.

    Args:
        model: Faster R-CNN, Mask R-CNN, Keypoint R-CNN, RetinaNet, FCOS or SSD, also SSDlite. It is put in evaluation
            mode, and it is shared with this module, not copied.

    Called with a list of images [3, h, w] of a floating dtype, with values from 0 to 1. The result is a list of one
    dictionary per image: `boxes` [d, 4] in pixels of the image, `scores` [d], `labels` [d] (int64). Mask R-CNN adds
    `masks` [d, 1, h, w], and Keypoint R-CNN adds `keypoints` [d, k, 3] and `keypoints_scores` [d, k], as torchvision
    does. `{name: values[found["scores"] >= 0] for name, values in found.items()}` is torchvision's result.

    Raises:
        TypeError: the model is none of these detectors.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        from torchvision.models.detection.fcos import FCOS
        from torchvision.models.detection.generalized_rcnn import GeneralizedRCNN
        from torchvision.models.detection.retinanet import RetinaNet
        from torchvision.models.detection.ssd import SSD

        if not isinstance(model, GeneralizedRCNN | RetinaNet | FCOS | SSD):
            raise TypeError(
                f"FixedDetector: got {type(model).__name__}, expected a detector of torchvision.models.detection "
                "(Faster, Mask or Keypoint R-CNN, RetinaNet, FCOS, SSD); pass the model itself, not a wrapper"
            )
        self.model = model.eval()
        self._two_stages = isinstance(model, GeneralizedRCNN)

    def train(self, mode: bool = True) -> FixedDetector:
        """Stay in evaluation mode. Train the wrapped model itself: its losses need no fixed sizes.

        Raises:
            ValueError: `mode` is true.
        """
        if mode:
            raise ValueError("FixedDetector has no losses; train the wrapped model, which shares its parameters")
        return super().train(mode)

    def forward(self, images: list[Tensor]) -> list[dict[str, Tensor]]:
        """`images`: tensors of [channels, height, width], of static sizes. Returns a dictionary for each image, with
        the keys of the wrapped model and a fixed number of rows; a row without a detection has the score -1."""
        model: Any = self.model
        sizes = [(image.shape[-2], image.shape[-1]) for image in images]
        batch, _ = model.transform(images)
        features = model.backbone(batch.tensors)
        if isinstance(features, Tensor):
            features = {"0": features}
        if self._two_stages:
            results = regions.detections(model, batch, features)
        else:
            results = single_stage.detections(model, batch, features)
        for result, resized, size in zip(results, batch.image_sizes, sizes, strict=True):
            heads.rescale(result, resized, size)
        return results
