# SPDX-License-Identifier: BSD-3-Clause
"""Tables for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any


def html_table(rows: Iterable[Sequence[Any]], head: Sequence[str] = (), title: str = "") -> str:
    """Return an HTML table with one cell per value; integers have thousands separators. All text is escaped."""

    import html  # imported lazily: only notebooks need it

    def cells(values: Sequence[Any], tag: str) -> str:
        align = ["left" if k == 0 or isinstance(v, str) else "right" for k, v in enumerate(values)]
        texts = [f"{v:,}" if isinstance(v, int) and not isinstance(v, bool) else str(v) for v in values]
        parts = [f'<{tag} style="text-align:{a}">{html.escape(t)}</{tag}>' for a, t in zip(align, texts)]
        return f"<tr>{''.join(parts)}</tr>"

    caption = f"<caption>{html.escape(title)}</caption>" if title else ""
    top = f"<thead>{cells(head, 'th')}</thead>" if head else ""
    return f"<table>{caption}{top}<tbody>{''.join(cells(row, 'td') for row in rows)}</tbody></table>"
