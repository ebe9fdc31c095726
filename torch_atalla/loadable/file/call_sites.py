# SPDX-License-Identifier: BSD-3-Clause
"""The metadata that names the calls of Atalla code: function, graph node and source line of each."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from torch_atalla.isa.profile import CallSite

KEY = "code_calls"  # method_key(KEY, ...) of a method


def dump_calls(sites: Iterable[CallSite]) -> str:
    return json.dumps([[site.function, site.node, site.source] for site in sites])


def load_calls(metadata: Mapping[str, str], key: str) -> list[CallSite]:
    """Return the sites of a method's calls; [] for code that is not a table of calls, or has no names."""
    return [CallSite(*fields) for fields in json.loads(metadata.get(key, "[]"))]
