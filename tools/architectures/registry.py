# SPDX-License-Identifier: BSD-3-Clause
"""The architectures of the transformers package: model type -> class of its model without a head."""

from __future__ import annotations

import re
from functools import cache
from typing import Any


@cache
def model_types() -> list[str]:
    """Each class once: of the model types that name it the one that begins like it, or the first."""
    seen: dict[str, str] = {}
    for model_type, name in _names().items():
        begins = name.lower().startswith(re.sub(r"\W|_", "", model_type))
        if name not in seen or begins:
            seen[name] = model_type
    return sorted(seen.values())


def _names() -> dict[str, str]:
    from transformers.models.auto import modeling_auto

    found: dict[str, Any] = dict(modeling_auto.MODEL_MAPPING_NAMES)
    for extra in EXTRA:
        for model_type, name in getattr(modeling_auto, extra).items():
            found.setdefault(model_type, name)
    return {kind: name if isinstance(name, str) else name[0] for kind, name in found.items()}


# Where a model type has no model without a head.
EXTRA = ("MODEL_FOR_CAUSAL_LM_MAPPING_NAMES", "MODEL_FOR_SEMANTIC_SEGMENTATION_MAPPING_NAMES",
         "MODEL_FOR_DEPTH_ESTIMATION_MAPPING_NAMES", "MODEL_FOR_OBJECT_DETECTION_MAPPING_NAMES",
         "MODEL_FOR_KEYPOINT_DETECTION_MAPPING_NAMES", "MODEL_FOR_IMAGE_MATTING_MAPPING_NAMES",
         "MODEL_FOR_BACKBONE_MAPPING_NAMES")  # fmt: skip


def model_class(model_type: str) -> Any:
    import transformers

    return getattr(transformers, _names()[model_type])
