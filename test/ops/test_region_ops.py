# SPDX-License-Identifier: BSD-3-Clause
"""torchvision's ops on regions of images, without torchvision: against their kernels for the CPU, which are written in
PyTorch's ops (test/ecosystem/test_torchvision.py compares those with torchvision's own library)."""

from __future__ import annotations

import pytest
import torch
from region_cases import all_cases, boxes, deform_cases, mean_cases, nms_cases, regions

import torch_atalla
from torch_atalla.integration.libraries import torchvision, torchvision_cpu

ops = torch.ops.torchvision
FLOATING = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
# Half-precision results are rounded once on both sides; sums before it differ in their order.
TOLERANCES = {torch.float32: 2e-5, torch.float64: 1e-11, torch.float16: 4e-3, torch.bfloat16: 3e-2}


@pytest.fixture(autouse=True, scope="module")
def defined():
    try:
        import torchvision as library  # noqa: F401
    except ImportError:
        torchvision.define_ops()


def moved(arguments):
    return [a.to("atalla") if isinstance(a, torch.Tensor) else a for a in arguments]


def agree(name, arguments, tolerance):
    reference = getattr(torchvision_cpu, name.removeprefix("_"))
    expected, actual = reference(*arguments), getattr(ops, name)(*moved(arguments))
    if not isinstance(expected, tuple):
        expected, actual = (expected,), (actual,)
    for e, a in zip(expected, actual, strict=True):
        assert a.device.type == "atalla" and a.dtype == e.dtype
        torch.testing.assert_close(a.cpu(), e, rtol=tolerance, atol=tolerance, equal_nan=True)


@pytest.mark.parametrize("dtype", FLOATING, ids=str)
def test_ops_agree_with_the_cpu(dtype):
    with torch.no_grad():
        for name, arguments in all_cases(dtype):
            agree(name, arguments, TOLERANCES[dtype])


def test_layouts():
    strided = {
        "channels last": lambda t: t.to(memory_format=torch.channels_last),
        "transposed": lambda t: t.mT.clone().mT,
    }
    for cases in (mean_cases, deform_cases):
        for name, arguments in cases(torch.float32):
            for layout in strided.values():
                agree(name, [layout(a) if isinstance(a, torch.Tensor) and a.dim() == 4 else a for a in arguments], 2e-5)


def test_regions_that_are_not_finite_give_zeros():
    image = torch.ones(1, 2, 6, 6, device="atalla")
    for value in (torch.nan, torch.inf, 1e30):
        rois = torch.tensor([[0, 1, 1, value, 4]], device="atalla")
        for ratio in (0, 2):
            result = ops.roi_align(image, rois, 1.0, 2, 2, ratio, False).cpu()
            assert result.isfinite().all() and result.abs().max() <= 1
        assert ops.roi_pool(image, rois, 1.0, 2, 2)[0].isfinite().all()
    wide = torch.tensor([[0, -1e9, -1e9, 1e9, 1e9]], device="atalla")  # more samples than anyone can take
    assert ops.roi_align(image, wide, 1.0, 2, 2, 0, False).isfinite().all()


@pytest.mark.parametrize("image", [-1, 2, torch.nan, torch.inf])
def test_a_region_of_no_image_is_an_error(image):
    source = torch.ones(2, 4, 6, 6, device="atalla")
    rois = torch.tensor([[0.0, 1, 1, 4, 4], [image, 1, 1, 4, 4]], device="atalla")
    grad = torch.ones(2, 4, 2, 2, device="atalla")
    calls = {
        "roi_align": lambda: ops.roi_align(source, rois, 1.0, 2, 2, 2, False),
        "ps_roi_align": lambda: ops.ps_roi_align(source, rois, 1.0, 2, 2, 2),
        "ps_roi_pool": lambda: ops.ps_roi_pool(source, rois, 1.0, 2, 2),
        "roi_pool": lambda: ops.roi_pool(source, rois, 1.0, 2, 2),
        "roi_align_backward": lambda: ops._roi_align_backward(grad, rois, 1.0, 2, 2, 2, 4, 6, 6, 2, False),
        "roi_pool_backward": lambda: ops._roi_pool_backward(
            grad, rois, torch.zeros_like(grad, dtype=torch.int32), 1.0, 2, 2, 2, 4, 6, 6
        ),
    }
    for name, call in calls.items():
        with pytest.raises(Exception, match=f"{name}: region 1 is of image .*, expected one of 2 images"):
            call()
            torch.atalla.synchronize()


def test_maxima_outside_of_the_plane_are_an_error():
    grad, rois = torch.ones(1, 1, 1, 1, device="atalla"), torch.zeros(1, 5, device="atalla")
    with pytest.raises(Exception, match="roi_pool_backward: the maximum 36 of a plane of 36 elements"):
        ops._roi_pool_backward(grad, rois, grad.int() * 36, 1.0, 1, 1, 1, 1, 6, 6)
        torch.atalla.synchronize()


def test_errors_are_worded_as_upstream_words_them():
    x, rois = torch.ones(1, 8, 6, 6, device="atalla"), torch.zeros(1, 5, device="atalla")
    box, score = boxes(3).to("atalla"), torch.ones(3, device="atalla")
    weight, bias = torch.ones(2, 8, 3, 3, device="atalla"), torch.zeros(2, device="atalla")
    offset, mask = torch.zeros(1, 18, 4, 4, device="atalla"), torch.zeros(1, 1, device="atalla")
    geometry = (1, 1, 0, 0, 1, 1, 1, 1, False)
    for text, call in {
        "boxes should be a 2d tensor, got 1D": lambda: ops.nms(score, score, 0.5),
        "boxes should have 4 elements in dimension 1, got 3": lambda: ops.nms(box[:, :3], score, 0.5),
        "scores should be a 1d tensor, got 2D": lambda: ops.nms(box, box, 0.5),
        "same number of elements in dimension 0, got 3 and 2": lambda: ops.nms(box, score[:2], 0.5),
        "dets should have the same type as scores": lambda: ops.nms(box, score.half(), 0.5),
        r"Tensor rois should have shape as Tensor\[K, 5\]": lambda: ops.roi_align(x, rois[:, :4], 1.0, 2, 2, 2, False),
        "input should have the same type as rois": lambda: ops.roi_align(x, rois.half(), 1.0, 2, 2, 2, False),
        "input and rois must have the same dtype": lambda: ops.roi_pool(x, rois.half(), 1.0, 2, 2),
        "input channels must be a multiple of pooling height": lambda: ops.ps_roi_align(x, rois, 1.0, 3, 3, 2),
        r"offset.shape\[1\] is not valid: got: 17 expected: 18": lambda: ops.deform_conv2d(
            x, weight, offset[:, :17], mask, bias, *geometry
        ),
        "stride_h: 0 stride_w: 1": lambda: ops.deform_conv2d(x, weight, offset, mask, bias, 0, *geometry[1:]),
        "offset output dims": lambda: ops.deform_conv2d(x[:, :, :5], weight, offset, mask, bias, *geometry),
        "Expected all tensors to be on the same device": lambda: ops.roi_align(x, rois.cpu(), 1.0, 2, 2, 2, False),
    }.items():
        with pytest.raises(RuntimeError, match=text):
            call()


def test_autocast_runs_in_float32():
    image, rois = torch.randn(1, 8, 9, 9), regions(7, 1, 30.0)
    half = image.to("atalla", torch.bfloat16)
    with torch.autocast("atalla", dtype=torch.bfloat16):
        aligned = ops.roi_align(half, rois.to("atalla"), 0.25, 2, 2, 2, False)  # dtypes that differ without autocast
        pooled, argmax = ops.roi_pool(half, rois.to("atalla"), 0.25, 2, 2)
        bins, channels = ops.ps_roi_align(half, rois.to("atalla"), 0.25, 2, 2, 2)
        means, _ = ops.ps_roi_pool(half, rois.to("atalla"), 0.25, 2, 2)
        kept = ops.nms(boxes(20).to("atalla"), torch.arange(20, 0, -1).half().to("atalla"), 0.3)
    for result in (aligned, pooled, argmax, bins, channels, means):
        assert result.dtype == torch.bfloat16
    wide = half.cpu().float()
    expected = torchvision_cpu.roi_align(wide, rois, 0.25, 2, 2, 2, False).bfloat16()
    torch.testing.assert_close(aligned.cpu(), expected, rtol=1e-2, atol=1e-2)
    expected = torchvision_cpu.ps_roi_align(wide, rois, 0.25, 2, 2, 2)[0].bfloat16()
    torch.testing.assert_close(bins.cpu(), expected, rtol=1e-2, atol=1e-2)
    assert torch.equal(kept.cpu(), torchvision_cpu.nms(boxes(20), torch.arange(20.0, 0, -1), 0.3))


def test_autocast_of_deformable_convolution():
    name, (*tensors, s0, s1, p0, p1, d0, d1, groups, offset_groups, use_mask) = next(deform_cases(torch.float32))
    rest = (s0, s1, p0, p1, d0, d1, groups, offset_groups, use_mask)
    half = [t.to("atalla", torch.bfloat16) for t in tensors[:1]] + [t.to("atalla") for t in tensors[1:]]
    with torch.autocast("atalla", dtype=torch.bfloat16):
        result = ops.deform_conv2d(*half, *rest)
    assert result.dtype == torch.bfloat16
    expected = torchvision_cpu.deform_conv2d(half[0].cpu().float(), *tensors[1:], *rest).bfloat16()
    torch.testing.assert_close(result.cpu(), expected, rtol=2e-2, atol=2e-2)


def test_nms_of_a_fixed_size():
    for _, (dets, scores, threshold) in nms_cases(torch.float32):
        kept = ops.nms(dets.to("atalla"), scores.to("atalla"), threshold)
        for size in (0, 1, 5, 400):
            expected = torch.full((size,), -7)
            expected[: min(size, len(kept))] = kept.cpu()[:size]
            for device in ("cpu", "atalla"):
                result = torch.ops.atalla.nms_static(
                    dets.to(device), scores.to(device), threshold, size=size, fill_value=-7
                )
                assert torch.equal(result.cpu(), expected)
    with pytest.raises(RuntimeError, match="nms_static: expected a size of 0 or more, got -1"):
        torch.ops.atalla.nms_static(boxes(1).to("atalla"), torch.ones(1, device="atalla"), 0.5, size=-1)


def test_results_do_not_depend_on_threads():
    rois, grad = regions(200, 2).to("atalla"), torch.randn(200, 40, 7, 7, device="atalla")
    results = []
    before = torch_atalla.chip.get_num_threads()
    try:
        for threads in (1, 2, 4):
            torch_atalla.chip.set_num_threads(threads)
            results.append(ops._roi_align_backward(grad, rois, 0.5, 7, 7, 2, 40, 20, 20, 2, True).cpu())
    finally:
        torch_atalla.chip.set_num_threads(before)
    assert torch.equal(results[0], results[1]) and torch.equal(results[0], results[2])
