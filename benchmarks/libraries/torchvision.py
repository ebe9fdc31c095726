# SPDX-License-Identifier: BSD-3-Clause
"""Its detection tutorial: a step of Faster R-CNN with MobileNet, its detections, `v2` transforms and region ops"""

import torch
from torchvision import ops, tv_tensors
from torchvision.models.detection import fasterrcnn_mobilenet_v3_large_320_fpn
from torchvision.transforms import v2

from benchmarks.libraries import joined

DISTRIBUTION = "torchvision"


def run(device: str) -> list[torch.Tensor]:
    unlimited = 1 << 20  # all proposals are samples of the losses: none are drawn at random
    model = fasterrcnn_mobilenet_v3_large_320_fpn(
        weights=None, weights_backbone=None, num_classes=4, min_size=96, max_size=128, box_score_thresh=0.2,
        rpn_batch_size_per_image=unlimited, box_batch_size_per_image=unlimited, rpn_post_nms_top_n_train=50,
    ).double().to(device)  # fmt: skip
    image = tv_tensors.Image(torch.rand(3, 100, 120, dtype=torch.float64).to(device))
    boxes = torch.tensor([[4.0, 6, 60, 80], [50, 10, 110, 78]], dtype=torch.float64, device=device)
    marked = tv_tensors.BoundingBoxes(boxes, format="XYXY", canvas_size=(100, 120))
    transform = v2.Compose([v2.RandomHorizontalFlip(1.0), v2.Resize((96, 112), antialias=True)])
    image, target = transform(image, {"boxes": marked, "labels": torch.tensor([1, 3], device=device)})
    losses = model([image], [target])
    sum(losses.values()).backward()
    gradients = joined(p.grad for p in model.parameters() if p.grad is not None)
    with torch.no_grad():
        (found,) = model.eval()([image])
        rois = [target["boxes"].as_subclass(torch.Tensor)]
        pooled = ops.roi_align(image.as_subclass(torch.Tensor)[None], rois, 4, sampling_ratio=2)
    losses_ = torch.stack([loss.detach() for loss in losses.values()])
    return [losses_, gradients, found["boxes"], found["scores"], found["labels"], pooled, ops.box_iou(boxes, boxes + 5)]
