# SPDX-License-Identifier: BSD-3-Clause
"""All templates: importing this module fills the table."""

from . import (  # noqa: F401
    image_templates,
    index_templates,
    matrix_templates,
    pointwise_templates,
    reduce_templates,
    shape_templates,
)  # fmt: skip
from .generator import TEMPLATES as TEMPLATES

pointwise_templates.register()
