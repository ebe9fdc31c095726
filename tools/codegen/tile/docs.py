# SPDX-License-Identifier: BSD-3-Clause
"""Writes the table of steps of docs/concepts/tile-programs.md: python -m tools.codegen.tile.docs"""

from __future__ import annotations

from .. import kernels
from . import steps as model

PAGE = kernels.ROOT / "docs/concepts/tile-programs.md"
BEGIN, END = "<!-- steps: begin -->\n", "<!-- steps: end -->\n"
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


def row(number: int, step: model.Step) -> str:
    words = [", ".join(map(word, step.words))]
    words += [f"{form}: " + ", ".join(map(word, group)) for form, group in step.forms.items()]
    words += [f"steps of `{body}`" for body in step.bodies]
    numbers = ", ".join(str(number + k) for k in range(len(step.names)))
    names = ", ".join(f"`{name}`" for name in step.names)
    return f"| {numbers} | {names} | {'<br>'.join(words)} | {step.meaning} |"


def page(text: str, table: model.Table) -> str:
    """`text` with its table replaced."""
    before, _, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise SystemExit(f"{PAGE.name} has no lines {BEGIN.strip()} and {END.strip()}")
    lines, number = ["| number | step | words | meaning |", "| --- | --- | --- | --- |"], 0
    for step in table.steps:
        lines.append(row(number, step))
        number += len(step.names)
    return before + BEGIN + "\n".join(lines) + "\n" + END + after


def load() -> model.Table:
    enums = kernels.load(kernels.ROOT / kernels.TABLE).enums
    return model.load(kernels.ROOT / model.TABLE, enums)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(), load()))
