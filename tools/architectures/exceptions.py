# SPDX-License-Identifier: BSD-3-Clause
"""Fields of configurations that the rules of small_config.py cannot know: model type -> values."""

from __future__ import annotations

from typing import Any

OVERRIDES: dict[str, dict[str, Any]] = {
    "align": {"projection_dim": 640},
    "mamba2": {"num_heads": 8},
    "mimi": {"upsample_groups": 64},
    "mimi_encoder": {"upsample_groups": 64},
    "mimi_decoder": {"upsample_groups": 64},
}
