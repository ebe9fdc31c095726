# SPDX-License-Identifier: BSD-3-Clause
"""The tables of docs/reference/kernels.md, from the kernel contracts."""

from __future__ import annotations

from itertools import groupby

from .. import pages
from . import kernels


def operand(o: kernels.Operand | kernels.Reference) -> str:
    if isinstance(o, kernels.Reference):
        return f"as `{o.kernel}`"
    text = o.name
    notes = ["read and written"] if o.role == "inout" else []
    if o.broadcast:
        notes.append(f"broadcast to `{o.shape}`" if o.shape.startswith("[") else f"broadcast to {o.shape}")
    elif o.shape.startswith("["):
        text += f" {o.shape}"
    elif o.shape:
        notes.append(o.shape)
    text = f"`{text}`" + ("..." if o.repeat else "")
    text = f"**{text}**" if o.written else text
    if o.role == "immediate":
        notes.append("immediate")
    elif o.immediate:
        notes.append("may be immediate")
    if o.role == "program":
        notes.append("I64, one dimension")
    notes += [" or ".join(o.dtypes)] if o.dtypes else []
    notes += [n for n in (o.layout, o.note) if n]
    notes += ["optional"] if o.optional else []
    return text + (f" ({'; '.join(notes)})" if notes else "")


def parameter(p: kernels.Parameter | kernels.Reference) -> str:
    if isinstance(p, kernels.Reference):
        return f"as `{p.kernel}`"
    places = [f"`{p.slot}`" + (f" bit {p.bit}" if p.bit is not None else "")]
    places += [f"integers: `{p.integer}`"] if p.integer else []
    places += [f"imaginary part: `{p.imaginary}`"] if p.imaginary else []
    places += [p.type] if p.type in ("bool", "extent", "mask") else []
    values = ", ".join(f"{value} {name}" for value, name in enumerate(p.values))
    rest = "; ".join(text for text in (values, p.meaning) if text)
    return f"`{p.name}` ({', '.join(places)})" + (f": {rest}" if rest else "")


def loop(item: kernels.Loop) -> str:
    text = f"`{item.name}`"
    if item.over:
        text += f" (windows of `{item.over}`)"
    if len(item.condition) == 2:
        text += f" if `{item.condition[0]} == {item.condition[1]}`"
    return text + (f" without `{item.condition[0]}`" if len(item.condition) == 1 else "")


def cells(kernel: kernels.Kernel) -> list[str]:
    names = " ".join(f"`{name}`" for name in kernel.names)
    version = f" (version {kernel.version})" if kernel.version > 1 else ""
    operands = ", ".join(map(operand, kernel.own_operands))
    parameters = "<br>".join(map(parameter, kernel.own_parameters))
    meaning = kernel.meaning + (f" Divided along {', '.join(map(loop, kernel.loops))}." if kernel.loops else "")
    meaning += "".join(f"<br>{output} = `{text}`" for output, text in kernel.values.items())
    return [cell.replace("|", "\\|") for cell in (names + version, operands, parameters, meaning)]


def page() -> str:
    lines: list[str] = []
    for section, group in groupby(kernels.load(kernels.ROOT / kernels.TABLE).kernels, lambda kernel: kernel.section):
        lines += ["", f"## {section}", "", *pages.table("kernel | operands | parameters | meaning", map(cells, group))]
    return pages.with_section(pages.DOCS / "reference/kernels.md", "kernels", lines[1:])
