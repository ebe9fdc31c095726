# SPDX-License-Identifier: BSD-3-Clause
"""Pages of docs/tutorials have their scripts as they are, and their output except for numbers."""

import pytest

from tools.codegen import tutorial

SCRIPTS = [(name, script) for name, page in tutorial.PAGES.items() for script in page.scripts]


def test_each_script_is_on_a_page() -> None:
    found = {path for folder in ("compile", "tutorials") for path in tutorial.ROOT.glob(f"examples/{folder}/*.py")}
    assert found == {tutorial.PAGES[name].path(script) for name, script in SCRIPTS}


@pytest.mark.parametrize(("name", "script"), SCRIPTS)
def test_page_has_the_script_and_its_output(name: str, script: str) -> None:
    page = tutorial.PAGES[name]
    path = page.path(script)
    if "import triton" in path.read_text():
        pytest.importorskip("triton", reason="the extra torch_atalla[triton] is not installed")
    wanted = tutorial.section(path, tutorial.output(path), "##" if page.introduction else "#")
    found = tutorial.without_numbers(tutorial.where(name).read_text())
    assert tutorial.without_numbers(wanted) in found, f"run python -m tools.codegen.tutorial {name}"


@pytest.mark.parametrize(("name", "script"), SCRIPTS)
def test_page_has_the_whole_script(name: str, script: str) -> None:
    last = tutorial.PAGES[name].path(script).read_text().rstrip().splitlines()[-1]
    assert f"{last}\n```" in tutorial.where(name).read_text()


@pytest.mark.parametrize("name", [name for name, page in tutorial.PAGES.items() if not page.introduction])
def test_values_agree_in_the_output(name: str) -> None:
    """The scripts compare with the CPU or with another engine; the committed pages show that they agree."""
    assert "False" not in tutorial.where(name).read_text().rpartition("```text")[2]
