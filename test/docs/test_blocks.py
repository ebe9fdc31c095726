# SPDX-License-Identifier: BSD-3-Clause
"""Code blocks of the documentation: Python runs, other languages are parsed, and commands exist."""

from __future__ import annotations

import builtins
import functools
import importlib.util
import inspect
import re
import subprocess
import tomllib
from pathlib import Path
from unittest import mock

import pytest
import torch
import yaml
from page_blocks import NEEDED, NOT_RUN, PAGES, ROOT, RUN_ELSEWHERE, SETUP, Block, blocks

from torch_atalla.__main__ import COMMANDS, main

BLOCKS = [block for page in PAGES for block in blocks(page)]
PYTHON = {page: [block for block in blocks(page) if block.language == "python"] for page in PAGES}
LANGUAGES = {"cpp", "diff", "python", "sh", "text", "toml", "yaml", "{doxygenfile}", "{eval-rst}"}


def reason(block: Block) -> str | None:
    """Why a Python block does not run here."""
    found = [why for (page, start), why in NOT_RUN.items() if page == block.page and block.text.startswith(start)]
    packages = re.findall(r"^(?:from|import) (\w+)", block.text, re.M)
    found += [f"needs {name}" for name in packages if importlib.util.find_spec(name) is None]
    return found[0] if found else None


def test_every_block_names_its_language() -> None:
    """Output is text: what has another name is code, and is checked here."""
    assert [f"{b.page}:{b.line}: {b.language!r}" for b in BLOCKS if b.language not in LANGUAGES] == []


def test_no_code_is_indented() -> None:
    """Python that is indented instead of fenced would escape."""
    found = []
    for page in PAGES:
        outside = re.sub(r"^ *```.*?^ *```", "", (ROOT / page).read_text(), flags=re.M | re.S)
        for text in re.findall(r"(?<=\n\n)((?: {4}\S.*\n)+)", outside):
            if re.search(r"^ {4}(import|from|with|def|class|for) .*|^ {4}(torch|make|python)\b", text, re.M):
                found.append(f"{page}: {text.strip().splitlines()[0]}")
    assert found == []


def test_exceptions_are_needed() -> None:
    assert [key for key in NOT_RUN if not any(b.text.startswith(key[1]) for b in PYTHON[key[0]])] == []
    assert [page for page in (*RUN_ELSEWHERE, *SETUP, *NEEDED) if not PYTHON[page]] == []
    assert [where for where in RUN_ELSEWHERE.values() if not (ROOT / where).exists()] == []
    assert [page for page, codes in SETUP.items() if max(codes) >= len(PYTHON[page])] == []


# --------------------------------------------------------------------------------------------------------------- Python
class Printed:
    """print() of a page's blocks, which compares with the comment of its line where that shows a value."""

    VALUE = re.compile(r"(True|False|None|-?[\d.,]+|[\[({].*[\])}]|[A-Z]\w+\(.*\)|torch\.Size\(.*\))")

    def __init__(self, block: Block, file: str) -> None:
        self.block, self.file = block, file
        self.compared = 0

    def __call__(self, *values: object, **options: object) -> None:
        frame = inspect.currentframe()
        assert frame is not None and frame.f_back is not None
        if frame.f_back.f_code.co_filename != self.file:
            return builtins_print(*values, **options)  # type: ignore[call-overload]
        text = self.block.text.splitlines()[frame.f_back.f_lineno - self.block.line]
        comment = text.partition("  # ")[2].strip()
        if self.VALUE.fullmatch(comment):
            assert " ".join(map(str, values)) == comment, f"{self.block.page}:{frame.f_back.f_lineno}"
            self.compared += 1


builtins_print = builtins.print


@pytest.mark.parametrize("page", [page for page in PAGES if PYTHON[page] and page not in RUN_ELSEWHERE])
def test_python_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The blocks of a page run in their order, with one namespace."""
    if page in NEEDED and importlib.util.find_spec(NEEDED[page]) is None:
        pytest.skip(f"needs {NEEDED[page]}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    torch.manual_seed(0)
    names: dict[str, object] = {"__name__": "__page__"}
    for number, block in enumerate(PYTHON[page]):
        exec(SETUP.get(page, {}).get(number, ""), names)
        if reason(block) is not None:
            compile(block.text, page, "exec", dont_inherit=True)
        else:
            # In a file, which Triton reads. Its lines are those of the page, so that tracebacks name the line.
            file = tmp_path / f"{Path(page).stem}_{number}.py"
            file.write_text("\n" * (block.line - 1) + block.text)
            code = compile(file.read_text(), str(file), "exec", dont_inherit=True)
            with mock.patch.object(builtins, "print", Printed(block, str(file))):
                exec(code, names)


# ------------------------------------------------------------------------------------------------------ other languages
@pytest.mark.parametrize(
    "block", [b for b in BLOCKS if b.language in ("yaml", "toml")], ids=lambda b: f"{b.page}:{b.line}"
)
def test_data_can_be_read(block: Block) -> None:
    assert (yaml.safe_load if block.language == "yaml" else tomllib.loads)(block.text)


CPP = """
#include "atalla.hpp"
void page(void* memory, uint64_t bytes) {
  std::vector<float> x(6);
  atalla::Tensor ids = atalla::Tensor::of({2, 3}, x.data()), positions = ids, token = ids, position = ids;
"""


def test_cpp_compiles(tmp_path: Path) -> None:
    texts = [b for b in BLOCKS if b.language == "cpp"]
    assert {b.page for b in texts} == {"docs/guides/runtime.md"}
    first, *others = (f'#line {b.line} "{b.page}"\n{b.text}' for b in texts)
    inner = "".join(f"{{\n  atalla::Tensor x = ids;\n  (void)x;\n{text}}}\n" for text in others)
    (tmp_path / "page.cpp").write_text(f"{CPP}{first}{inner}}}\n")
    command = ["g++", "-std=c++17", "-fsyntax-only", "-I", ROOT / "csrc/runtime/c_api", tmp_path / "page.cpp"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# ------------------------------------------------------------------------------------------------------------- commands
def commands() -> list[tuple[str, str]]:
    """(page, command) of shell blocks and of code in sentences."""
    found = [(b.page, line) for b in BLOCKS if b.language == "sh" for line in b.text.replace("\\\n", " ").splitlines()]
    for page in PAGES:
        outside = re.sub(r"^ *```.*?^ *```", "", (ROOT / page).read_text(), flags=re.M | re.S)
        found += [(page, code) for code in re.findall(r"`((?:make|python) [^`]+)`", " ".join(outside.split()))]
    return [(page, line.partition(" #")[0].strip()) for page, line in found]


def test_commands_exist() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M))
    wrong, checked = [], 0
    for page, command in commands():
        words = [word for word in command.split() if not re.match(r"[A-Z_]+=", word)]
        if words[:1] == ["make"]:
            goals = [word for word in words[1:] if not word.startswith("-")][:1]
            missing = [goal for goal in goals if goal not in targets]
        elif words[:2] == ["python", "-m"]:
            module = words[2].rstrip(".,;")
            missing = [module] if importlib.util.find_spec(module) is None else []
        elif words[:1] == ["python"] and words[1].endswith(".py"):
            missing = [] if (ROOT / words[1]).exists() else words[1:2]
        else:
            continue
        checked += 1
        wrong += [f"{page}: {command}: {name} does not exist" for name in missing]
    assert wrong == [] and checked > 60


def test_subcommands_and_options_exist(capsys: pytest.CaptureFixture[str]) -> None:
    """`python -m torch_atalla NAME --option`: the help of the command names the option."""

    @functools.cache
    def help_text(name: str) -> str:
        if name not in COMMANDS:
            return ""
        with pytest.raises(SystemExit):
            main([name, "--help"])
        return capsys.readouterr().out

    wrong, checked = [], 0
    for page, command in commands():
        found = re.match(r"(?:\w+=\S+ )*python -m torch_atalla (\w+)(.*)", command)
        if found is None:
            continue
        name, rest = found[1], found[2]
        text = help_text(name)
        options = re.findall(r"(?<!\S)\[?(--[a-z][\w-]*)", rest)
        wrong += [
            f"{page}: {command}: {name} has no {option}"
            for option in options
            if text and not re.search(rf"{option}(?![\w-])", text)
        ]
        wrong += [] if text else [f"{page}: {command}: there is no {name}"]
        checked += 1
    assert wrong == [] and checked > 20
