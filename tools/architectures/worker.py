# SPDX-License-Identifier: BSD-3-Clause
"""A child process that measures architectures."""

from __future__ import annotations

import importlib
import logging
from typing import Any

from tools.runner import Handler, start_worker

IMPORTED = (
    "torch_atalla.compiler.file.save", "transformers.exporters.exporter_dynamo", "transformers.generation.utils",
    "transformers.modeling_layers", "transformers.modeling_utils", "transformers.models.auto.modeling_auto",
    "transformers.masking_utils", "transformers.processing_utils",
)  # fmt: skip


def prepare() -> Handler:
    """Import what every architecture needs, so that no one's time has it."""
    for module in IMPORTED:
        importlib.import_module(module)
    logging.disable(logging.WARNING)
    from tools.architectures.measure import Result, measure, store

    def handle(request: dict[str, Any]) -> dict[str, Any]:
        result = Result(request["model_type"])
        store(result)
        store(measure(result.model_type, result, lambda: store(result)))
        return {}

    return handle


if __name__ == "__main__":
    start_worker(prepare)
