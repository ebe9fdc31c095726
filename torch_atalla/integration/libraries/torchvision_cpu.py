# SPDX-License-Identifier: BSD-3-Clause
"""torchvision's ops in PyTorch's ops, for tensors on the CPU.

They compute what torchvision's library computes, in another way than the device: the bins of a region are products with
matrices of weights. Half precision is computed in float32, and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor


def nms(dets: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """The boxes [n, 4] that overlap none of a higher score by more than the threshold, by falling score: int64."""
    torch._check(dets.dim() == 2, lambda: f"boxes should be a 2d tensor, got {dets.dim()}D")
    torch._check(dets.size(1) == 4, lambda: f"boxes should have 4 elements in dimension 1, got {dets.size(1)}")
    torch._check(scores.dim() == 1, lambda: f"scores should be a 1d tensor, got {scores.dim()}D")
    torch._check(
        dets.size(0) == scores.size(0),
        lambda: (
            "boxes and scores should have same number of elements in dimension 0, "
            f"got {dets.size(0)} and {scores.size(0)}"
        ),
    )
    torch._check(dets.dtype == scores.dtype, lambda: "dets should have the same type as scores")
    order = scores.sort(stable=True, descending=True).indices
    boxes = _widened(dets)[order]
    areas = (boxes[:, 2:] - boxes[:, :2]).prod(1)
    dropped = torch.zeros(len(order), dtype=torch.bool)
    for i in range(len(order)):
        if dropped[i]:
            continue
        low = torch.maximum(boxes[i, :2], boxes[i + 1 :, :2])
        high = torch.minimum(boxes[i, 2:], boxes[i + 1 :, 2:])
        both = (high - low).clamp(min=0).prod(1)
        dropped[i + 1 :] |= (both / (areas[i] + areas[i + 1 :] - both)).double() > iou_threshold
    return order[~dropped]


class _Bins:
    """Weights of the rows [k, p, h] and columns [k, q, w] of an image in the p x q bins of k regions, and divisors."""

    def __init__(self, rows: Tensor, columns: Tensor, divisor: Tensor) -> None:
        self.rows, self.columns, self.divisor = rows, columns, divisor

    def crops(self) -> Iterator[tuple[int, Any, Tensor, Tensor]]:
        """For each region, the index of the part of a plane that it needs, and the weights there."""
        for k, (rows, columns) in enumerate(zip(self.rows, self.columns)):
            used = []
            for weights in (rows, columns):
                places = weights.ne(0).any(0).nonzero()
                used.append(slice(int(places.min()), int(places.max()) + 1) if len(places) else slice(0, 0))
            yield k, (..., *used), rows[:, used[0]], columns[:, used[1]]


def _images(rois: Tensor, count: int) -> list[int]:
    images = rois[:, 0].int().tolist()
    for k, image in enumerate(images):
        if not 0 <= image < count:
            raise IndexError(f"region {k} is of image {image}, expected one of {count} images")
    return images


def _samples(begin: Tensor, extent: Tensor, bins: int, ratio: int, size: int) -> tuple[Tensor, Tensor]:
    """Weights [k, bins, size] of linearly interpolated samples, and the number of samples of a bin [k]."""
    step = extent / bins
    wanted = step.ceil() if ratio <= 0 else torch.full_like(step, ratio)
    counts = torch.where(wanted.abs() < 2**31, wanted, 0).long().clamp(min=0)  # not of what is not finite
    weights = torch.zeros(len(begin), bins, size, dtype=begin.dtype)
    for count in counts.unique().tolist() if size else ():
        chosen = counts == count
        first = begin[chosen, None, None] + torch.arange(bins)[:, None] * step[chosen, None, None]
        at = first + (torch.arange(count) + 0.5).to(begin.dtype) * step[chosen, None, None] / count
        inside = (at >= -1) & (at <= size)
        at = torch.where(inside, at, 0).clamp(min=0)
        low = at.long().clamp(max=size - 1)
        upper = torch.where(low < size - 1, at - low, 0)
        found = torch.zeros(at.shape[0], bins, size, dtype=begin.dtype)
        found.scatter_add_(2, low, torch.where(inside, 1 - upper, 0))
        found.scatter_add_(2, (low + 1).clamp(max=size - 1), torch.where(inside, upper, 0))
        weights[chosen] = found
    return weights, counts


def _sampled(rois: Tensor, scale: float, bins: tuple[int, int], ratio: int, size: tuple, aligned: bool) -> _Bins:
    found = []
    for d in (0, 1):
        begin, end = ((rois[:, column] * scale) - (0.5 if aligned else 0) for column in (2 - d, 4 - d))
        extent = end - begin if aligned else (end - begin).clamp(min=1)
        found.append(_samples(begin, extent, bins[d], ratio, size[d]))
    (rows, high), (columns, wide) = found
    divisor = (high * wide).to(rois.dtype)[:, None, None].expand(-1, *bins)
    return _Bins(rows, columns, divisor)


def _rounded(values: Tensor) -> Tensor:
    """Half away from zero, as integers; what is not finite or does not fit is the smallest int."""
    near = values.trunc() + (values - values.trunc() >= 0.5).to(values.dtype)
    near = near - (values - values.trunc() <= -0.5).to(values.dtype)
    return torch.where(near.abs() < 2**31, near, -(2.0**31)).long()


def _edges(rois: Tensor, scale: float, bins: int, d: int, extra: int, limit: int) -> tuple[Tensor, Tensor]:
    """First elements [k, bins] of the bins of rounded regions, and those behind their last ones."""
    begin, end = (_rounded(rois[:, column] * scale) for column in (2 - d, 4 - d))
    step = (end - begin + extra).clamp(min=1).to(rois.dtype)[:, None] / bins
    number = torch.arange(bins, dtype=rois.dtype)
    first = (number * step).floor().long() + begin[:, None]
    last = ((number + 1) * step).ceil().long() + begin[:, None]
    return first.clamp(0, limit), last.clamp(0, limit)


def _pooled(rois: Tensor, scale: float, bins: tuple[int, int], size: tuple, whole: bool) -> _Bins:
    weights, counts = [], []
    for d in (0, 1):
        first, last = _edges(rois, scale, bins[d], d, 0, size[d] if whole else max(size[d] - 1, 0))
        place = torch.arange(size[d])
        weights.append(((place >= first[..., None]) & (place < last[..., None])).to(rois.dtype))
        counts.append((last - first).clamp(min=0))
    divisor = counts[0][:, :, None] * counts[1][:, None, :]
    return _Bins(weights[0], weights[1], divisor.clamp(min=1).to(rois.dtype))


def _mean(source: Tensor, rois: Tensor, bins: _Bins, sensitive: bool) -> Tensor:
    images = _images(rois, source.size(0))
    p, q = bins.rows.size(1), bins.columns.size(1)
    channels = source.size(1) // (p * q) if sensitive else source.size(1)
    out = source.new_empty(len(images), channels, p, q)
    for k, crop, rows, columns in bins.crops():
        part = source[images[k]][crop]
        if sensitive:
            out[k] = torch.einsum("py,cpqyx,qx->cpq", rows, part.unflatten(0, (channels, p, q)), columns)
        else:
            out[k] = rows @ part @ columns.T
    return out / bins.divisor[:, None]


def _mean_backward(grad: Tensor, rois: Tensor, bins: _Bins, sensitive: bool, sizes: tuple) -> Tensor:
    source = grad.new_zeros(sizes)
    images = _images(rois, sizes[0])
    grad = torch.where(bins.divisor[:, None] == 0, 0, grad / bins.divisor[:, None])
    for k, crop, rows, columns in bins.crops():
        if sensitive:
            source[images[k]][crop] += torch.einsum("py,cpq,qx->cpqyx", rows, grad[k], columns).flatten(0, 2)
        else:
            source[images[k]][crop] += rows.T @ grad[k] @ columns
    return source


def _widened(tensor: Tensor) -> Tensor:
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def _check(source: Tensor, rois: Tensor, text: str) -> None:
    torch._check(rois.size(1) == 5, lambda: "Tensor rois should have shape as Tensor[K, 5]")
    torch._check(source.dtype == rois.dtype, lambda: text)


def _check_channels(source: Tensor, height: int, width: int) -> None:
    torch._check(
        source.size(1) % (height * width) == 0,
        lambda: "input channels must be a multiple of pooling height * pooling width",
    )


def _channels(out: Tensor) -> Tensor:
    """The input channel of each bin, int32."""
    return torch.arange(out[0].numel() if len(out) else 0, dtype=torch.int32).repeat(len(out), 1).view(out.shape)


def roi_align(source: Tensor, rois: Tensor, scale: float, height: int, width: int, ratio: int, aligned: bool) -> Tensor:
    """Means [k, c, height, width] of interpolated samples in the bins of regions [k, 5] of images [n, c, h, w]."""
    _check(source, rois, "input should have the same type as rois")
    wide = _widened(rois)
    bins = _sampled(wide, scale, (height, width), ratio, source.shape[2:], aligned)
    bins.divisor = bins.divisor.clamp(min=1)
    return _mean(_widened(source), wide, bins, sensitive=False).to(source.dtype)


def roi_align_backward(grad: Tensor, rois: Tensor, scale: float, height: int, width: int, *rest: Any) -> Tensor:
    """The gradient of the images, of sizes `rest[:4]`."""
    _check(grad, rois, "grad should have the same type as rois")
    *sizes, ratio, aligned = rest
    wide = _widened(rois)
    bins = _sampled(wide, scale, (height, width), ratio, tuple(sizes[2:]), aligned)
    return _mean_backward(_widened(grad), wide, bins, False, tuple(sizes)).to(grad.dtype)


def ps_roi_align(
    source: Tensor, rois: Tensor, scale: float, height: int, width: int, ratio: int
) -> tuple[Tensor, Tensor]:
    """As roi_align, with input channels of its own for each bin, which are the second result."""
    _check(source, rois, "input should have the same type as rois")
    _check_channels(source, height, width)
    wide = _widened(rois)
    bins = _sampled(wide, scale, (height, width), ratio, source.shape[2:], True)
    out = _mean(_widened(source), wide, bins, sensitive=True).to(source.dtype)
    return out, _channels(out)


def ps_roi_align_backward(
    grad: Tensor, rois: Tensor, mapping: Tensor, scale: float, height: int, width: int, ratio: int, *sizes: int
) -> Tensor:
    """The gradient of the images, of sizes `sizes`."""
    _check(grad, rois, "grad should have the same type as rois")
    wide = _widened(rois)
    bins = _sampled(wide, scale, (height, width), ratio, sizes[2:], True)
    return _mean_backward(_widened(grad), wide, bins, True, sizes).to(grad.dtype)


def ps_roi_pool(source: Tensor, rois: Tensor, scale: float, height: int, width: int) -> tuple[Tensor, Tensor]:
    """Means of the elements of the bins of rounded regions, with input channels of its own for each bin."""
    _check(source, rois, "input and rois must have the same dtype")
    _check_channels(source, height, width)
    wide = _widened(rois)
    bins = _pooled(wide, scale, (height, width), source.shape[2:], whole=False)
    out = _mean(_widened(source), wide, bins, sensitive=True).to(source.dtype)
    return out, _channels(out)


def ps_roi_pool_backward(
    grad: Tensor, rois: Tensor, mapping: Tensor, scale: float, height: int, width: int, *sizes: int
) -> Tensor:
    """The gradient of the images. Unlike those of the forward function, bins contain the last row and column."""
    _check(grad, rois, "grad and rois must have the same dtype")
    wide = _widened(rois)
    bins = _pooled(wide, scale, (height, width), sizes[2:], whole=True)
    return _mean_backward(_widened(grad), wide, bins, True, sizes).to(grad.dtype)


def roi_pool(source: Tensor, rois: Tensor, scale: float, height: int, width: int) -> tuple[Tensor, Tensor]:
    """Maxima of the elements of the bins of rounded regions, and their int32 indices in a plane: -1 for empty bins."""
    _check(source, rois, "input and rois must have the same dtype")
    wide, images = _widened(rois), _images(rois, source.size(0))
    (tops, bottoms), (lefts, rights) = (
        (edge.tolist() for edge in _edges(wide, scale, bins, d, 1, source.size(2 + d)))
        for d, bins in enumerate((height, width))
    )
    out = source.new_zeros(len(images), source.size(1), height, width)
    argmax = torch.full(out.shape, -1, dtype=torch.int32)
    for k, image in enumerate(images):
        for i, (top, bottom) in enumerate(zip(tops[k], bottoms[k])):
            for j, (left, right) in enumerate(zip(lefts[k], rights[k])):
                part = source[image, :, top:bottom, left:right]
                if part.size(1) == 0 or part.size(2) == 0:
                    continue
                lowest = -torch.finfo(torch.float32).max
                flat = _widened(part).flatten(1).nan_to_num(nan=lowest, posinf=torch.inf, neginf=lowest)
                value, at = flat.max(1)
                index = (top + at // part.size(2)) * source.size(3) + left + at % part.size(2)
                out[k, :, i, j] = value.to(source.dtype)
                argmax[k, :, i, j] = torch.where(value > lowest, index, -1).int()
    return out, argmax


def roi_pool_backward(
    grad: Tensor, rois: Tensor, argmax: Tensor, scale: float, height: int, width: int, *sizes: int
) -> Tensor:
    """The gradient of the images: at the maxima, sums over the regions."""
    _check(grad, rois, "grad and rois must have the same dtype")
    source = _widened(grad).new_zeros(*sizes[:2], sizes[2] * sizes[3])
    for k, image in enumerate(_images(rois, sizes[0])):
        found = argmax[k].flatten(1)
        values = torch.where(found >= 0, _widened(grad)[k].flatten(1), 0)
        source[image].scatter_add_(1, found.clamp(min=0).long(), values)
    return source.view(sizes).to(grad.dtype)


def _columns(source: Tensor, offset: Tensor, mask: Tensor | None, windows: tuple, groups: int, kernel: tuple) -> Tensor:
    """Displaced and interpolated elements of the windows: [n, c, kh * kw, p * q]."""
    n, c, h, w = source.shape
    stride, padding, dilation = windows[:2], windows[2:4], windows[4:6]
    p, q = offset.shape[2:]
    shift = offset.view(n, groups, *kernel, 2, p, q)
    y = torch.arange(p).view(p, 1) * stride[0] - padding[0] + torch.arange(kernel[0]).view(-1, 1, 1, 1) * dilation[0]
    x = torch.arange(q) * stride[1] - padding[1] + torch.arange(kernel[1]).view(-1, 1, 1) * dilation[1]
    y, x = y + shift[:, :, :, :, 0], x + shift[:, :, :, :, 1]  # [n, g, kh, kw, p, q]
    inside = (y >= -1) & (y < h) & (x >= -1) & (x < w)  # at -1, values are 0, but not their derivatives
    planes = source.reshape(n, groups, c // groups, h * w)
    total: Any = 0
    low_y, low_x = (torch.where(inside, at, 0).floor().detach() for at in (y, x))
    for step_y in (0, 1):
        for step_x in (0, 1):
            at_y, at_x = low_y + step_y, low_x + step_x
            weight = (y - low_y if step_y else 1 - y + low_y) * (x - low_x if step_x else 1 - x + low_x)
            used = inside & (at_y >= 0) & (at_y < h) & (at_x >= 0) & (at_x < w)
            index = torch.where(used, at_y * w + at_x, 0).long().flatten(2)
            values = planes.gather(3, index[:, :, None].expand(-1, -1, c // groups, -1))
            total = total + torch.where(used, weight, 0).flatten(2)[:, :, None] * values
    if mask is not None:
        total = total * mask.reshape(n, groups, 1, kernel[0] * kernel[1] * p * q)
    return total.reshape(n, c, kernel[0] * kernel[1], p * q)


def deform_conv2d(source: Tensor, weight: Tensor, offset: Tensor, mask: Tensor, bias: Tensor, *rest: Any) -> Tensor:
    """A convolution [n, o, p, q] whose windows are displaced by offsets [n, 2 * g * kh * kw, p, q]."""
    *windows, groups, offset_groups, use_mask = rest
    kernel = tuple(weight.shape[2:])
    sizes = []
    for d in (0, 1):
        window = windows[4 + d] * (kernel[d] - 1) + 1
        sizes.append((source.size(2 + d) + 2 * windows[2 + d] - window) // windows[d] + 1)
    torch._check(
        tuple(offset.shape[2:]) == tuple(sizes),
        lambda: f"offset output dims: {tuple(offset.shape[2:])} - computed output dims: {tuple(sizes)}",
    )
    wide = [_widened(t) for t in (source, weight, offset, mask, bias)]
    columns = _columns(wide[0], wide[2], wide[3] if use_mask else None, tuple(windows), offset_groups, kernel)
    parts = columns.reshape(len(source), groups, weight[0].numel(), sizes[0] * sizes[1])
    matrix = wide[1].reshape(groups, weight.size(0) // groups, weight[0].numel())
    out = torch.einsum("gok,ngkl->ngol", matrix, parts).reshape(len(source), weight.size(0), *sizes)
    return (out + wide[4].view(1, -1, 1, 1)).to(source.dtype)


@contextmanager
def _differentiating() -> Iterator[None]:
    """Autograd, inside of a kernel below it."""
    include = torch._C._dispatch_tls_local_include_set()
    autograd = torch._C.DispatchKeySet(torch._C.DispatchKey.AutogradCPU)
    exclude = torch._C._dispatch_tls_local_exclude_set() - autograd
    with torch._C._ForceDispatchKeyGuard(include, exclude), torch.enable_grad():
        yield


def _gradients(function: Callable[..., Tensor], tensors: list[Tensor], grad: Tensor) -> list[Tensor]:
    with _differentiating():
        leaves = [tensor.detach().requires_grad_() for tensor in tensors]
        found = torch.autograd.grad(function(*leaves), leaves, grad, allow_unused=True)
    return [torch.zeros_like(tensor) if g is None else g for tensor, g in zip(tensors, found)]


def deform_conv2d_backward(
    grad: Tensor, source: Tensor, weight: Tensor, offset: Tensor, mask: Tensor, bias: Tensor, *rest: Any
) -> tuple[Tensor, ...]:
    """The gradients of the five tensors, by autograd."""
    tensors = [source, weight, offset, mask, bias]
    return tuple(_gradients(lambda *leaves: deform_conv2d(*leaves, *rest), tensors, grad))
