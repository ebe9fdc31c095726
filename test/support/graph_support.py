# SPDX-License-Identifier: BSD-3-Clause
"""Shared code of the tests of graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def captured(work: Callable[[], Any], **options: Any) -> tuple[torch.atalla.Graph, Any]:
    """A graph of `work`, and what it returned."""
    graph = torch.atalla.Graph()
    with torch.atalla.graph(graph, **options):
        result = work()
    return graph, result
