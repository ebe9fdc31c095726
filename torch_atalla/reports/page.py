# SPDX-License-Identifier: BSD-3-Clause
"""The page of a report: one HTML file with its style, its scripts and the compressed document inside."""

from __future__ import annotations

import base64
import gzip
import html
import json
from collections.abc import Sequence
from importlib.resources import files
from string import Template
from typing import Any

# Scripts of each kind of page, in the order of their use; the last starts the page.
REPORT = ("core", "plot", "chain", "overview", "modules", "graph", "timeline", "memory", "roofline", "nodes", "tabs")
SNAPSHOT = ("core", "plot", "snapshot")


def page(document: dict[str, Any], scripts: Sequence[str]) -> str:
    """Return the page of a document, which its scripts show. It needs no network and no other file."""
    text = json.dumps(document, separators=(",", ":"))
    return Template(_source("page.html")).substitute(
        title=html.escape(document["title"]),
        style=_source("style.css"),
        script="\n".join(_source(f"{name}.js") for name in scripts),
        data=base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode(),
    )


def _source(name: str) -> str:
    return files(__package__).joinpath("page", name).read_text(encoding="utf-8")
