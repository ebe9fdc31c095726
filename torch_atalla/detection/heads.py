# SPDX-License-Identifier: BSD-3-Clause
"""Masks and keypoints of detections.

torchvision resizes the head's map of each detection to the size of its box, which is data. Here, each row and column of
the image has weights of the map's rows and columns: the resized map is a product of matrices, zero or masked outside of
the box.
"""

from __future__ import annotations

import torch
from torch import Tensor

Size = tuple[int, int]
_CUBIC = -0.75  # the constant of bicubic interpolation in torch.nn.functional.interpolate


def rescale(result: dict[str, Tensor], resized: Size, original: Size) -> None:
    """From pixels of the resized image to those of the original one; masks [d, 1, m, m] are drawn into the image."""
    from torchvision.models.detection.transform import resize_boxes, resize_keypoints

    result["boxes"] = resize_boxes(result["boxes"], resized, original)
    if "masks" in result:
        present = result["scores"][:, None, None, None] >= 0
        result["masks"] = torch.where(present, _drawn(result["masks"], result["boxes"], original), 0)
    if "keypoints" in result:
        result["keypoints"] = resize_keypoints(result["keypoints"], resized, original)


def add_masks(results: list[dict[str, Tensor]], logits: Tensor) -> None:
    """Add each detection's map [1, m, m] of probabilities, of its own class."""
    for result, maps in zip(results, logits.sigmoid().split(len(logits) // len(results)), strict=True):
        place = torch.arange(len(maps), device=maps.device)
        result["masks"] = maps[place, result["labels"]][:, None]


def add_keypoints(results: list[dict[str, Tensor]], logits: Tensor, sizes: list[Size]) -> None:
    """Add the places [d, k, 3] of the largest values of each detection's maps [k, m, m], and these values [d, k]."""
    for i, maps in enumerate(logits.split(len(logits) // len(results))):
        points, scores = _largest(maps, results[i]["boxes"], sizes[i])
        present = results[i]["scores"] >= 0
        results[i]["keypoints"] = torch.where(present[:, None, None], points, 0)
        results[i]["keypoints_scores"] = torch.where(present[:, None], scores, 0)


def _at(places: Tensor, weights: Tensor, count: int) -> Tensor:
    """A row of `count` elements with the weight at each place, clamped to the row's ends."""
    elements = torch.arange(count, device=places.device)
    return torch.where(places.clamp(0, count - 1)[..., None] == elements, weights[..., None], 0)


def _sources(length: Tensor, pixels: Tensor, count: int) -> Tensor:
    """Where pixels of an axis resized from `count` elements to `length` are in the original one: [d, pixels]."""
    return (pixels + 0.5) * (count / length)[:, None] - 0.5


def _linear(source: Tensor, count: int) -> Tensor:
    """Weights [d, pixels, count] of linear interpolation."""
    source = source.clamp(min=0)
    low = source.floor()
    part = source - low
    return _at(low, 1 - part, count) + _at(low + 1, part, count)


def _cubic(source: Tensor, count: int) -> Tensor:
    """Weights [d, pixels, count] of cubic convolution."""
    low = source.floor()
    part = source - low
    total = torch.zeros_like(part)[..., None]
    for step in (-1, 0, 1, 2):
        x = (part - step).abs()
        if step in (0, 1):
            weight = ((_CUBIC + 2) * x - (_CUBIC + 3)) * x * x + 1
        else:
            weight = ((_CUBIC * x - 5 * _CUBIC) * x + 8 * _CUBIC) * x - 4 * _CUBIC
        total = total + _at(low + step, weight, count)
    return total


def _drawn(masks: Tensor, boxes: Tensor, size: Size) -> Tensor:
    """Masks [d, 1, m, m] in their boxes [d, 4] of images of that size: [d, 1, h, w]."""
    from torchvision.models.detection.roi_heads import expand_boxes, expand_masks

    padded, scale = expand_masks(masks, padding=1)
    corners = expand_boxes(boxes, scale).to(torch.int64)
    weights = []
    for d in (0, 1):
        begin, end = corners[:, 1 - d], corners[:, 3 - d]
        pixels = torch.arange(size[d], device=boxes.device)
        length = (end - begin + 1).clamp(min=1).to(boxes.dtype)
        source = _sources(length, (pixels - begin[:, None]).to(boxes.dtype), padded.shape[-1])
        inside = (pixels >= begin[:, None]) & (pixels <= end[:, None])
        weights.append(_linear(source, padded.shape[-1]) * inside[..., None])
    rows, columns = weights
    return (rows @ padded[:, 0] @ columns.transpose(1, 2))[:, None]


def _largest(maps: Tensor, boxes: Tensor, size: Size) -> tuple[Tensor, Tensor]:
    """Where maps [d, k, m, m], resized to their boxes [d, 4], are largest: places [d, k, 3] and values [d, k].

    The boxes are inside of an image of that size. One detection is resized after the other: each takes k * h * w
    elements.
    """
    lengths = (boxes[:, 2:] - boxes[:, :2]).clamp(min=1)
    pixels = [torch.arange(extent, device=boxes.device, dtype=boxes.dtype) for extent in size]
    rows, columns = (
        _cubic(_sources(lengths[:, 1 - d].ceil(), pixels[d], maps.shape[2 + d]), maps.shape[2 + d]) for d in (0, 1)
    )
    inside = (pixels[0][:, None] < lengths[:, 1, None, None]) & (pixels[1] < lengths[:, 0, None, None])
    values, places = [], []
    for i in range(len(maps)):
        resized = torch.where(inside[i], rows[i] @ maps[i] @ columns[i].transpose(0, 1), -torch.inf)
        value, place = resized.flatten(1).max(1)
        values.append(value)
        places.append(place)
    place = torch.stack(places)
    x, y = ((index.float() + 0.5) for index in (place % size[1], place // size[1]))
    ratio = lengths / lengths.ceil()
    x, y = x * ratio[:, :1] + boxes[:, :1], y * ratio[:, 1:] + boxes[:, 1:2]
    return torch.stack([x, y, torch.ones_like(x)], 2).float(), torch.stack(values).float()
