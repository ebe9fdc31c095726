# SPDX-License-Identifier: BSD-3-Clause
"""All templates: importing this module fills the table."""

from . import image_templates, index_templates, matrix_templates, pointwise_templates, reduce_templates, shape_templates
from .generator import TEMPLATES

pointwise_templates.register()

__all__ = [
    "TEMPLATES",
    "image_templates",
    "index_templates",
    "matrix_templates",
    "pointwise_templates",
    "reduce_templates",
    "shape_templates",
]
