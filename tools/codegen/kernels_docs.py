# SPDX-License-Identifier: BSD-3-Clause
"""Writes the tables of docs/reference/kernels.md from the kernel contracts: python -m tools.codegen.kernels_docs"""

from __future__ import annotations

from . import kernels

PAGE = kernels.ROOT / "docs/reference/kernels.md"
BEGIN, END = "<!-- kernels: begin -->\n", "<!-- kernels: end -->\n"


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


def row(kernel: kernels.Kernel) -> str:
    names = " ".join(f"`{name}`" for name in kernel.names)
    version = f" (version {kernel.version})" if kernel.version > 1 else ""
    operands = ", ".join(map(operand, kernel.own_operands))
    parameters = "<br>".join(map(parameter, kernel.own_parameters))
    meaning = kernel.meaning + (f" Divided along {', '.join(map(loop, kernel.loops))}." if kernel.loops else "")
    meaning += "".join(f"<br>{output} = `{text}`" for output, text in kernel.values.items())
    cells = (names + version, operands, parameters, meaning)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def tables(entries: list[kernels.Kernel]) -> str:
    lines: list[str] = []
    for section in dict.fromkeys(k.section for k in entries):
        lines += ["", f"## {section}", "", "| kernel | operands | parameters | meaning |", "| --- | --- | --- | --- |"]
        lines += [row(k) for k in entries if k.section == section]
    return "\n".join(lines[1:]) + "\n"


def page(text: str, entries: list[kernels.Kernel]) -> str:
    """`text` with its tables replaced."""
    before, _, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise SystemExit(f"{PAGE.name} has no lines {BEGIN.strip()} and {END.strip()}")
    return before + BEGIN + tables(entries) + END + after


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(), kernels.load(kernels.ROOT / kernels.TABLE).kernels))
