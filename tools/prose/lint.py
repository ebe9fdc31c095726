# SPDX-License-Identifier: BSD-3-Clause
"""Lints the prose of pages, public headers, docstrings and help texts of the command line.

textlint applies the rules of rules.yml. Comments and strings are copied to build/prose/ as Markdown with the line
numbers of the source, so that a finding names the line to change. Needs Node.js 20 or newer; `make lint` installs
textlint in build/prose/.
"""

import ast
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "build" / "prose"
PAGES = ["*.md", "docs/**/*.md"]
HEADERS = ["csrc/sim/abi/atalla*.h", "csrc/runtime/c_api/atalla*.h*"]
PYTHON = ["torch_atalla/*.py", "torch_atalla/cli/*.py", "torch_atalla/device/*.py", "torch_atalla/loadable/*.py"]
HELP_KEYWORDS = {"help", "description", "epilog"}


def comments(source: str) -> list[str]:
    """The `//` and `/* */` comments of a C or C++ source, each on the line that it has there."""
    lines = []
    in_block = False
    for line in source.splitlines():
        text = ""
        opening = line.find("/*")
        if in_block or opening >= 0:
            start = 0 if in_block else opening + 2
            end = line.find("*/", start)
            in_block = end < 0
            text = line[start : end if end >= 0 else None].strip().lstrip("* ")
        elif found := re.search(r"(?<!:)//[/!]?<?(.*)", line):
            text = found[1]
        is_code = text.startswith("   ") or not text.strip("- ")
        lines.append("" if is_code else text.strip())
    return lines


def strings(source: str) -> list[str]:
    """The docstrings, help texts and command descriptions of a Python source, each on the line that it has there."""
    lines = [""] * len(source.splitlines())
    texts: list[ast.expr] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            if ast.get_docstring(node):
                texts.append(node.body[0].value)  # type: ignore[attr-defined]
        elif isinstance(node, ast.keyword) and node.arg in HELP_KEYWORDS:
            texts.append(node.value)
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "COMMANDS":
            texts += node.value.values  # type: ignore[attr-defined]
    for text in texts:
        if isinstance(text, ast.Constant) and isinstance(text.value, str):
            for offset, line in enumerate(text.value.split("\n")):
                lines[min(text.lineno - 1 + offset, len(lines) - 1)] = line.strip()
    return lines


def copy(source: Path, lines: list[str]) -> Path:
    """Write the lines as a Markdown file below build/prose/."""
    target = WORK / "text" / f"{source.relative_to(ROOT)}.md"
    target.parent.mkdir(parents=True, exist_ok=True)
    escaped = [re.sub(r"([<_*#|\[])", r"\\\1", line) if "`" not in line else line for line in lines]
    target.write_text("\n".join(escaped) + "\n")
    return target


def main() -> int:
    shutil.rmtree(WORK / "text", ignore_errors=True)
    files = [path for pattern in PAGES for path in ROOT.glob(pattern)]
    for patterns, extract in ((HEADERS, comments), (PYTHON, strings)):
        for path in sorted(path for pattern in patterns for path in ROOT.glob(pattern)):
            files.append(copy(path, extract(path.read_text())))
    textlint = WORK / "node_modules/textlint/bin/textlint.js"
    config = ["--config", ROOT / "tools/prose/.textlintrc.json", "--rules-base-directory", WORK / "node_modules"]
    command = ["node", textlint, *config, "--format", "json", *files]
    result = subprocess.run([str(word) for word in command], cwd=ROOT, text=True, stdout=subprocess.PIPE)
    for found in json.loads(result.stdout) if result.returncode <= 1 else []:
        path = found["filePath"].removeprefix(f"{WORK}/text/").removeprefix(f"{ROOT}/")
        for message in found["messages"]:
            place = f"{path.removesuffix('.md') if str(WORK) in found['filePath'] else path}:{message['line']}"
            print(f"{place}: {' '.join(message['message'].split())}")
    return result.returncode


if __name__ == "__main__":
    sys.exit(main())
