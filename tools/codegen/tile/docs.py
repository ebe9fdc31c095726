# SPDX-License-Identifier: BSD-3-Clause
"""The table of steps of docs/concepts/tile-programs.md."""

from __future__ import annotations

from ... import pages
from .. import kernels
from . import steps as model

KINDS = {"out": "written", "state": "read and written", "optional": "or -1", "mask": "flags or -1", "text": "text",
         "dtype": "dtype"}  # fmt: skip


def word(item: model.Word) -> str:
    name = item.name + ("" if item.repeat is None else f"[{item.repeat}]")
    kind = KINDS.get(item.kind, "")
    if item.enum:
        kind = f"enum {item.enum}"
    elif item.high == model.MOST_ELEMENTS and item.low == 1:
        kind = "elements"
    elif item.low is not None:
        kind = f"{item.low} to {item.high}"
    return f"`{name}`" + (f" ({kind})" if kind else "")


def cells(number: int, step: model.Step) -> tuple[str, ...]:
    words = [", ".join(map(word, step.words))]
    words += [f"{form}: " + ", ".join(map(word, group)) for form, group in step.forms.items()]
    words += [f"steps of `{body}`" for body in step.bodies]
    numbers = ", ".join(str(number + k) for k in range(len(step.names)))
    names = ", ".join(f"`{name}`" for name in step.names)
    return numbers, names, "<br>".join(words), step.meaning


def page() -> str:
    enums = kernels.load(kernels.ROOT / kernels.TABLE).enums
    rows, number = [], 0
    for step in model.load(kernels.ROOT / model.TABLE, enums).steps:
        rows.append(cells(number, step))
        number += len(step.names)
    table = pages.table("number | step | words | meaning", rows)
    return pages.with_section(pages.DOCS / "concepts/tile-programs.md", "steps", table)
