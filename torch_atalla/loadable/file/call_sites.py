# SPDX-License-Identifier: BSD-3-Clause
"""The metadata that names the calls of Atalla code: function, graph node and source line of each."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from torch_atalla.isa.profile import CallSite

KEY = "code_calls"  # method_key(KEY, ...) of a method


def dump_calls(sites: Iterable[CallSite]) -> str:
    return json.dumps([[site.function, site.node, site.source] for site in sites])


def load_calls(metadata: Mapping[str, str], key: str, count: int) -> list[CallSite]:
    """Return the sites of `count` calls. A file without the metadata has numbers instead of names."""
    if key not in metadata:
        return [CallSite(f"call {number}") for number in range(count)]
    sites = [CallSite(*fields) for fields in json.loads(metadata[key])]
    if len(sites) != count:
        raise ValueError(f"the metadata {key} names {len(sites)} calls; the code has {count}")
    return sites
