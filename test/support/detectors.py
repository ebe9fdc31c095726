# SPDX-License-Identifier: BSD-3-Clause
"""torchvision's detectors with random weights, small images, and targets for one training step."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

NAMES = (
    "fasterrcnn_mobilenet_v3_large_320_fpn", "fasterrcnn_resnet50_fpn", "fasterrcnn_resnet50_fpn_v2",
    "maskrcnn_resnet50_fpn", "keypointrcnn_resnet50_fpn", "retinanet_resnet50_fpn", "fcos_resnet50_fpn",
    "ssdlite320_mobilenet_v3_large", "ssd300_vgg16",
)  # fmt: skip
SPREAD = {"ssd300_vgg16": 0.01, "ssdlite320_mobilenet_v3_large": 0.05}  # of the last layers' weights
EVERYTHING = 1 << 20  # a budget of samples that no image exceeds, so that no random choice is made


def detector(name: str, dtype: torch.dtype = torch.float64) -> nn.Module:
    """The detector of that name, in evaluation mode.

    Scores of untrained heads are nearly equal. Larger weights of the last layers make some of them high, so that there
    is something to detect.
    """
    from torchvision.models import detection

    torch.manual_seed(0)
    options: dict[str, Any] = {"weights": None, "weights_backbone": None, "num_classes": 4}
    if "ssd" not in name:
        options |= {"min_size": 64, "max_size": 96}
    if "rcnn" in name:
        options |= {
            "rpn_batch_size_per_image": EVERYTHING, "box_batch_size_per_image": EVERYTHING,
            "rpn_pre_nms_top_n_train": 60, "rpn_post_nms_top_n_train": 30,
            "rpn_pre_nms_top_n_test": 60, "rpn_post_nms_top_n_test": 30, "box_detections_per_img": 10,
        }  # fmt: skip
    if name.startswith("keypoint"):
        options |= {"num_classes": 2, "num_keypoints": 3, "box_score_thresh": 0.0}
    model = getattr(detection, name)(**options)
    for part, module in model.named_modules():
        last = part.rpartition(".")[2]
        scores = last in ("cls_score", "cls_logits", "bbox_ctrness") or "head.classification_head.module_list" in part
        if scores and isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.normal_(module.weight, std=SPREAD.get(name, 0.3))
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    _know_statistics(model)
    return model.to(dtype).eval()


def _know_statistics(model: nn.Module) -> None:
    """Give batch norms the statistics of the images: with others, features of deep networks vanish."""
    norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm2d)]
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = 1.0
    with torch.no_grad():
        batch, _ = model.eval().transform(images(torch.float32))
        features = model.train().backbone(batch.tensors)
        if hasattr(model, "head"):
            model.head(list(features.values()))
    for norm, momentum in zip(norms, momenta):
        norm.momentum = momentum


def images(dtype: torch.dtype = torch.float64) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.rand(3, *size, generator=generator).to(dtype) for size in ((64, 80), (70, 64))]


def targets(name: str, dtype: torch.dtype = torch.float64) -> list[dict[str, torch.Tensor]]:
    classes = 2 if name.startswith("keypoint") else 4
    found = []
    for i, image in enumerate(images()):
        boxes = torch.tensor([[4.0, 6, 40, 50], [20, 10, 60, 58], [1, 2, 12, 14]][i:], dtype=dtype)
        target = {"boxes": boxes, "labels": torch.arange(len(boxes)) % (classes - 1) + 1}
        if name.startswith("mask"):
            masks = torch.zeros(len(boxes), *image.shape[1:], dtype=torch.uint8)
            for mask, (x1, y1, x2, y2) in zip(masks, boxes.int().tolist()):
                mask[y1:y2, x1 : (x1 + x2) // 2] = 1
            target["masks"] = masks
        if name.startswith("keypoint"):
            middle = (boxes[:, None, :2] + boxes[:, None, 2:]) / 2
            points = middle + torch.tensor([[0, 0], [3, -2], [-2, 3]], dtype=dtype)
            target["keypoints"] = torch.cat(
                [points, torch.ones(len(boxes), 3, 1)], 2
            ).float()  # torchvision takes no other
        found.append(target)
    return found


def moved(values: Any, device: str) -> Any:
    return torch.utils._pytree.tree_map(lambda t: t.to(device) if isinstance(t, torch.Tensor) else t, values)
