# SPDX-License-Identifier: BSD-3-Clause
"""A filter of docs/Doxyfile that turns the comments of a public header into documentation comments.

    python tools/doxygen_comments.py HEADER    prints the header

The first comment describes the file. A comment directly above a declaration or behind one on its line describes it.
Private members of classes are left out.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

_COMMENT = re.compile(r"\s*//(?!/) ?(?P<text>.*)")
_BEHIND = re.compile(r"(?P<code>.*?\S) {2,}// (?!NOLINT)(?P<text>.*)")
_RULE = re.compile(r"-{20,} ?.*")


def escaped(text: str) -> str:
    """Text without doxygen's commands."""
    return re.sub(r"([<>@\\#])", r"\\\1", text)


def described(block: list[str]) -> list[str]:
    """Text of a comment, with its indented paragraphs as code."""
    lines: list[str] = []
    in_code = in_list = False
    for before, text in zip(["", *block], block):
        in_list = text.startswith("- ") or (in_list and text != "")
        if not in_code and not in_list and text.startswith("  ") and before == "":
            lines.append("@verbatim")
            in_code = True
        elif in_code and not text.startswith("  "):
            lines.append("@endverbatim")
            in_code = False
        starts_list = text.startswith("- ") and before != "" and not before.startswith(("- ", "  "))
        lines += [""] * starts_list + [text[2:] if in_code else escaped(text)]
    return lines + ["@endverbatim"] * in_code


def filtered(source: str) -> str:
    lines, found, at = source.splitlines(), [], 0
    seen_file = False
    while at < len(lines):
        block = []
        while at < len(lines) and (comment := _COMMENT.fullmatch(lines[at])):
            block.append(comment["text"])
            at += 1
        if block:
            block = [text for text in block if not _RULE.fullmatch(text) and not text.startswith("SPDX-")]
            above = at < len(lines) and lines[at].strip() not in ("", "};")
            if above or not seen_file:
                text = described(block)
                found += ["/**", *(text if seen_file else ["@file", *text]), "*/"]
                seen_file = True
            continue
        if lines[at] == " private:":
            at = lines.index("};", at)
            continue
        behind = _BEHIND.fullmatch(lines[at])
        if behind and not behind["code"].endswith("{") and not lines[at].startswith(("#", "}")):
            column = behind.start("text") - 3
            found.append(f"{behind['code']}  ///< {escaped(behind['text'])}")
            while at + 1 < len(lines) and lines[at + 1].startswith(" " * column + "//"):
                at += 1
                found.append(f"{' ' * column}///< {escaped(lines[at][column + 2 :].strip())}")
        else:
            found.append(lines[at])
        at += 1
    return "\n".join(found) + "\n"


if __name__ == "__main__":
    sys.stdout.write(filtered(Path(sys.argv[1]).read_text()))
