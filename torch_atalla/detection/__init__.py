# SPDX-License-Identifier: BSD-3-Clause
"""Detectors of torchvision that can be exported and saved as loadables: their results have fixed sizes.

The wrapper of a model takes the same images (docs/guides/libraries.md):

    fixed = torch_atalla.detection.FixedDetector(maskrcnn_resnet50_fpn(weights="DEFAULT"))
    program = torch.export.export(fixed, ([image],))
    torch_atalla.save_loadable(program, "detector.atl", fallback="error")
"""

from .fixed import FixedDetector as FixedDetector

__all__ = ["FixedDetector"]
