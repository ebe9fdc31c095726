# SPDX-License-Identifier: BSD-3-Clause
"""The documentation site lists every page, public module and public header, without building it."""

import ast
import importlib.util
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import torch_atalla
from torch_atalla.device import namespace

ROOT = Path(__file__).resolve().parents[2]
INDEX = (ROOT / "docs/index.md").read_text()
API = (ROOT / "docs/reference/python-api.md").read_text()
MODULES = re.findall(r"^   (torch_atalla\.[\w.]+)$", API, re.MULTILINE)
HEADERS = [*ROOT.glob("csrc/sim/abi/atalla*.h"), *ROOT.glob("csrc/runtime/c_api/atalla*.h*")]


def module(path: str):
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


@pytest.fixture
def conf(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    return module("docs/conf.py")


@pytest.fixture(scope="module")
def doxygen_comments():
    return module("tools/doxygen_comments.py")


# ---------------------------------------------------------------------------------------------------- what is listed
def test_every_page_is_in_one_toctree(conf) -> None:
    listed = [page for pages in conf.toctrees(INDEX).values() for page in pages]
    pages = [str(page.relative_to(ROOT / "docs").with_suffix("")) for page in (ROOT / "docs").rglob("*.md")]
    assert sorted(listed) == sorted(set(pages) - {"index"})


def test_groups_are_the_headings_of_the_index(conf) -> None:
    captions = list(conf.toctrees(INDEX))
    assert {caption.partition(":")[0] for caption in captions} == set(re.findall(r"^## (.*)$", INDEX, re.MULTILINE))
    assert "Concepts: device" in captions and "Concepts" not in captions


def test_the_index_of_the_site_has_all_trees(conf) -> None:
    text = [INDEX]
    conf.prepare_page(None, "docs/index", text)
    assert text[0].count("```{toctree}") == len(conf.toctrees(INDEX)) + 1
    assert "](../build/gallery/two_streams.rst)" in text[0] and "../examples/two_streams.py" not in text[0]


def test_every_public_module_has_a_page() -> None:
    public = [getattr(torch_atalla, name) for name in torch_atalla.__all__]
    modules = [value for value in public if isinstance(value, type(torch_atalla))]
    modules += [*namespace._TOPICS, *namespace._SUBMODULES]
    assert {found.__name__ for found in modules} - set(MODULES) == set()


@pytest.mark.parametrize("name", MODULES)
def test_everything_public_has_a_docstring(name: str) -> None:
    found = importlib.import_module(name)
    listed = getattr(found, "__all__", ())
    ours = {
        key: value
        for key, value in vars(found).items()
        if (inspect.isfunction(value) or inspect.isclass(value))
        and (value.__module__ or "").startswith("torch_atalla")
        and (key in listed or (not listed and key[0] != "_" and value.__module__ == name))
    }
    for key, value in [*ours.items()]:
        for member, method in vars(value).items() if inspect.isclass(value) else ():
            method = method.fget if isinstance(method, property) else getattr(method, "__func__", method)
            if inspect.isfunction(method) and not member.startswith("_"):
                ours[f"{key}.{member}"] = method
    # A dataclass without a docstring gets its signature as one.
    assert [key for key, value in ours.items() if not value.__doc__ or value.__doc__.startswith(f"{key}(")] == []


def test_every_option_of_the_command_line_has_a_help_text() -> None:
    without = [
        f"{path.name}:{node.lineno}"
        for path in (ROOT / "torch_atalla/cli").glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".add_argument")
        if "help" not in {keyword.arg for keyword in node.keywords}
        if not ast.unparse(node.func).startswith("output.")  # trace reads -o once more, also behind the script
    ]
    assert without == []


def test_every_public_header_is_read_and_shown() -> None:
    names = {str(path.relative_to(ROOT)) for path in HEADERS}
    inputs = (ROOT / "docs/Doxyfile").read_text().partition("INPUT_FILTER")[0]
    assert set(re.findall(r"csrc/[\w./]+", inputs)) == names
    pages = "".join(page.read_text() for page in (ROOT / "docs/reference").glob("*.md"))
    assert set(re.findall(r"{doxygenfile} (\S+)", pages)) == {Path(name).name for name in names}


def test_versions_on_the_page_of_compatibility_are_those_of_the_headers() -> None:
    page = (ROOT / "docs/reference/compatibility.md").read_text()
    defined = {
        name: number
        for path in HEADERS
        for name, number in re.findall(r"#define (ATALLA_\w*(?:MAJOR|MINOR)\w*) (\d+)u", path.read_text())
    }
    assert [name for name in defined if name not in page] == []
    abi, driver = (f"{defined[f'{at}_MAJOR']}.{defined[f'{at}_MINOR']}" for at in ("ATALLA_ABI", "ATALLA_RT_VERSION"))
    form = (ROOT / "docs/reference/loadable-format.md").read_text().splitlines()[0].rpartition(" ")[2]
    assert f"(`atalla.h`) is version {abi};" in page and f"`atalla_runtime.h` states version {driver} " in page
    assert f"the version of its format, {form} today" in page
    assert f"ABI {defined['ATALLA_ABI_MAJOR']}.{defined['ATALLA_ABI_MINOR_LINK']} (" in page


def test_requirements_are_pinned() -> None:
    lines = [line for line in (ROOT / "requirements-site.txt").read_text().splitlines() if not line.startswith("#")]
    assert lines and all(re.fullmatch(r"[\w-]+==[\d.]+", line) for line in lines)


# ---------------------------------------------------------------------------------------------------- text
def test_indented_paragraphs_of_docstrings_are_code(conf) -> None:
    lines = [
        "One line. docs/guides/isa.md",
        "",
        "    x = 1",
        "",
        "    y = 2",
        "",
        "Args:",
        "    a: one",
        "",
        "    f(a)",
    ]
    conf.mark_examples(None, "function", "f", None, None, lines)
    assert lines == [
        *("One line. :doc:`/docs/guides/isa`", "", "::", "", "    x = 1", "", "    y = 2", ""),
        *("Args:", "    a: one", "", "::", "", "    f(a)"),
    ]


HEADER = """\
// SPDX-License-Identifier: BSD-3-Clause
//
// A file.
//
//   f(1);
//
// - an item
#define N 1  // not described

// ------------------------------------------------------------------------------- a section
// Adds <two>.
int f(int);
struct s {
  int a;  // one
          // line
  int bc;
  int d;   // aligned
};
class c {
 private:
  int hidden;
};
"""
DOCUMENTED = """\
/**
@file

A file.

@verbatim
f(1);
@endverbatim

- an item
*/
#define N 1  // not described

/**
Adds \\<two\\>.
*/
int f(int);
struct s {
  int a;  ///< one
          ///< line
  int bc;
  int d;  ///< aligned
};
class c {
};
"""


def test_comments_of_headers_become_documentation(doxygen_comments) -> None:
    assert doxygen_comments.filtered(HEADER) == DOCUMENTED


@pytest.mark.parametrize("path", HEADERS, ids=lambda path: path.name)
def test_the_filter_changes_comments_only(doxygen_comments, path: Path) -> None:
    def code(text: str) -> list[str]:
        text = re.sub(r"^ private:.*?^};", "};", text, flags=re.MULTILINE | re.DOTALL)
        lines = re.sub(r"^/\*\*\n.*?^\*/\n", "", text, flags=re.MULTILINE | re.DOTALL).splitlines()
        return [line for line in (re.sub(r"\s*//.*", "", line).rstrip() for line in lines) if line]

    assert code(doxygen_comments.filtered(path.read_text())) == code(path.read_text())


def test_the_filter_is_a_command(tmp_path: Path) -> None:
    header = tmp_path / "a.h"
    header.write_text(HEADER)
    done = subprocess.run(
        [sys.executable, "tools/doxygen_comments.py", header], cwd=ROOT, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, DOCUMENTED)
