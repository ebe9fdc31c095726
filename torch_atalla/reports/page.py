# SPDX-License-Identifier: BSD-3-Clause
"""The page of a report: one HTML file with its style, its scripts and the compressed document inside."""

from __future__ import annotations

import base64
import gzip
import html
import json
from importlib.resources import files
from string import Template
from typing import Any

# In the order of their use; tabs.js starts the page.
SCRIPTS = ("core", "plot", "chain", "overview", "modules", "graph", "timeline", "memory", "roofline", "nodes", "tabs")


def page(document: dict[str, Any]) -> str:
    """Return the page of a document (document.Document.to_dict). It needs no network and no other file."""
    text = json.dumps(document, separators=(",", ":"))
    return Template(_source("page.html")).substitute(
        title=html.escape(document["title"]),
        style=_source("style.css"),
        script="\n".join(_source(f"{name}.js") for name in SCRIPTS),
        data=base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode(),
    )


def _source(name: str) -> str:
    return files(__package__).joinpath("page", name).read_text(encoding="utf-8")
