# SPDX-License-Identifier: BSD-3-Clause
"""torchvision: its ops, where its own library cannot load.

PyPI's wheels of torchvision are linked with CUDA's libraries, which PyTorch's CPU build does not have. Then torchvision
has no ops, and `import torchvision` fails. Here are their definitions, with kernels for the CPU that are written in
PyTorch's ops. Gradients, meta functions and autocast on the CPU are torchvision's own, which are written in Python. The
device's kernels are registered in csrc/aten/kernels/region, wherever the definitions come from.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from . import torchvision_cpu

_FRAGMENTS: list[torch.library.Library] = []  # a definition ends with its library

_ROIS = "Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width"
_SIZES = "SymInt batch_size, SymInt channels, SymInt height, SymInt width"
_BINS = "float spatial_scale, SymInt pooled_height, SymInt pooled_width"
_WINDOWS = (
    "SymInt stride_h, SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, "
    "SymInt groups, SymInt offset_groups, bool use_mask"
)
_DEFORMED = "Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias"
# torchvision names the last ones when it is imported. They have no kernels.
SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    f"roi_align({_ROIS}, int sampling_ratio, bool aligned) -> Tensor",
    f"_roi_align_backward(Tensor grad, Tensor rois, {_BINS}, {_SIZES}, int sampling_ratio, bool aligned) -> Tensor",
    f"roi_pool({_ROIS}) -> (Tensor, Tensor)",
    f"_roi_pool_backward(Tensor grad, Tensor rois, Tensor argmax, {_BINS}, {_SIZES}) -> Tensor",
    f"ps_roi_align({_ROIS}, int sampling_ratio) -> (Tensor, Tensor)",
    f"_ps_roi_align_backward(Tensor grad, Tensor rois, Tensor channel_mapping, {_BINS}, int sampling_ratio, {_SIZES})"
    " -> Tensor",
    f"ps_roi_pool({_ROIS}) -> (Tensor, Tensor)",
    f"_ps_roi_pool_backward(Tensor grad, Tensor rois, Tensor channel_mapping, {_BINS}, {_SIZES}) -> Tensor",
    f"deform_conv2d({_DEFORMED}, {_WINDOWS}) -> Tensor",
    f"_deform_conv2d_backward(Tensor grad, {_DEFORMED}, {_WINDOWS}) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qroi_align(Tensor input, Tensor rois, float input_scale, int input_zero_point, float rois_scale, "
    f"int rois_zero_point, {_BINS}, int sampling_ratio, bool aligned) -> Tensor",
    "box_iou_rotated(Tensor boxes1, Tensor boxes2) -> Tensor",
)
_NO_CUDA = -1  # what torchvision's libraries without CUDA give as their version of CUDA


def define_ops() -> None:
    """Define torchvision's ops, with kernels for the CPU. Without effect after the first call.

    Raises RuntimeError if torchvision's own library is loaded, which defines them too.
    """
    if _FRAGMENTS:
        return
    library = torch.library.Library("torchvision", "FRAGMENT")
    for schema in SCHEMAS:
        library.define(schema)
        name = schema.partition("(")[0]
        kernel = getattr(torchvision_cpu, name.removeprefix("_"), None)
        if kernel is not None:
            library.impl(name, kernel, "CPU")
    library.define("_cuda_version() -> int")
    library.impl("_cuda_version", lambda: _NO_CUDA, "CompositeImplicitAutograd")
    _FRAGMENTS.append(library)


def _extension(module: Any) -> None:
    """The module that loads torchvision's library, and tells all others whether it has ops."""
    if module._has_ops():
        return
    if not Path(module.__file__).with_name("_autograd_registrations.py").is_file():
        raise ImportError("its gradients are in its own library, which cannot load; expected torchvision 0.28 or later")
    define_ops()
    module._has_ops = lambda: True


ADAPTED = {"torchvision.extension": _extension}
