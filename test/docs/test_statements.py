# SPDX-License-Identifier: BSD-3-Clause
"""Statements of hand-written pages that the code can check: lists of files, layers, passes, symbols and names."""

from __future__ import annotations

import re
import subprocess
import tomllib
from dataclasses import fields
from pathlib import Path

import pytest
import torch

import torch_atalla
from tools.check_layout import INCLUDES
from tools.names.features import FEATURES
from torch_atalla.compiler import compile_program
from torch_atalla.compiler.passes.graph import run_passes
from torch_atalla.compiler.targets.chip.fusion import CHIP
from torch_atalla.device import namespace
from torch_atalla.device.energy import Energy

ROOT = Path(__file__).resolve().parents[2]


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text()


def section(text: str, heading: str) -> str:
    """What follows a heading, up to the next one of its level or above."""
    level = len(heading) - len(heading.lstrip("#"))
    return re.split(rf"^#{{1,{level}}} ", text.partition(f"\n{heading}\n")[2], maxsplit=1, flags=re.M)[0]


def rows(text: str) -> list[list[str]]:
    """The cells of the first table of a text, without its head."""
    table = re.search(r"^\|.*\n\| ---.*\n((?:\|.*\n)+)", text, re.M)
    assert table is not None
    return [
        [cell.strip() for cell in line.strip().removeprefix("|").removesuffix("|").split("|")]
        for line in table[1].splitlines()
    ]


def code(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def tracked(folder: str) -> list[Path]:
    listed = subprocess.run(["git", "ls-files", folder], cwd=ROOT, capture_output=True, text=True, check=True)
    return [Path(name) for name in listed.stdout.split()]


# ----------------------------------------------------------------------------------------------------------- the chip
def test_the_chip_exports_these_symbols() -> None:
    sources = [file for file in tracked("csrc/sim") if file.suffix in (".h", ".cpp")]
    exported = {
        name
        for file in sources
        for name in re.findall(r"^(?:extern \"C\" )?ATALLA_EXPORT [\w\s*]*?(\w+)\(", (ROOT / file).read_text(), re.M)
    }
    sentence = re.search(r"exports four functions:(.*?)\.", page("concepts/chip.md"), re.S)
    assert sentence is not None
    assert set(re.findall(r"`(atalla_\w+)`", sentence[1])) == exported and len(exported) == 4


def test_the_table_of_sources_lists_every_file_of_the_chip() -> None:
    listed: dict[str, set[str]] = {}
    folder = ""
    for first, files, _ in rows(section(page("concepts/chip.md"), "## Source files")):
        folder = next(iter(code(first)), folder)
        listed.setdefault(folder, set()).update(name.partition(".")[0] for name in code(files))
    found: dict[str, set[str]] = {}
    for file in tracked("csrc/sim"):
        parts = file.relative_to("csrc/sim").parts
        if len(parts) > 1:
            found.setdefault(parts[0], set()).add(parts[1].partition(".")[0])
    assert listed.pop("kernels") == set()
    del found["kernels"]  # one folder per family, which the page says
    assert listed == found


# ------------------------------------------------------------------------------------------------------ the floors
def abi_headers(floor: str) -> set[str]:
    """The headers of the chip that a floor includes."""
    sources = [file for file in tracked(f"csrc/{floor}") if file.suffix in (".h", ".hpp", ".c", ".cpp")]
    names = (re.findall(r'#\s*include\s+"(?:\.\./)*([\w/.]+)"', (ROOT / file).read_text()) for file in sources)
    return {Path(name).name for found in names for name in found if name.startswith("sim/")}


@pytest.mark.parametrize(
    ("name", "heading"), [("concepts/driver.md", "# The driver"), ("concepts/architecture.md", "# Architecture")]
)
def test_pages_name_the_headers_through_which_the_chip_is_reached(name: str, heading: str) -> None:
    text = section("\n" + page(name), heading).partition("\n## ")[0]
    named = {Path(found).name for found in code(text) if found.endswith(".h") and "runtime" not in found}
    assert abi_headers("runtime") | abi_headers("aten") == named
    assert all(f"sim/abi/{header}".startswith(INCLUDES["runtime"]) for header in named)


def layers(identifier: str) -> list[set[str]]:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (found,) = [contract["layers"] for contract in contracts if contract["id"] == identifier]
    return [set(re.split(r" [|:] ", layer)) for layer in found]


def test_layers_of_the_package() -> None:
    table = rows(section(page("concepts/architecture.md"), "## Layers of the Python package"))
    listed = [{name.rstrip("/") for name in code(first)} for first, _ in table]
    wanted = layers("layers")
    assert listed[0] == wanted[0] | wanted[1] and listed[1:] == wanted[2:]


def test_layers_of_the_compiler() -> None:
    sentence = re.search(r"Inside `compiler/`, highest first: (.*?)\.\n", page("concepts/architecture.md"), re.S)
    assert sentence is not None
    listed = [{name.rstrip("/") for name in code(part)} for part in sentence[1].split(";")]
    assert listed == layers("compiler")


# ------------------------------------------------------------------------------------------------------ the compiler
class Stateful(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x).relu()
        self.total.add_(y.sum(0))
        return y + self.total


def pass_table() -> list[tuple[str, str]]:
    """(name, level) of each row."""
    return [
        (name, level)
        for names, _, level, _ in rows(section(page("concepts/compiler-passes.md"), "## Pass order"))
        for name in names.split(", ")
    ]


@pytest.mark.parametrize(
    ("options", "level"),
    [
        ({"optimize": "none"}, r"all"),
        ({"optimize": "exact"}, r"all|.*exact.*"),
        ({"optimize": "fast"}, r"all|.*fast.*"),
        ({"optimize": "exact", "epilogue": True}, r"all|.*exact.*|.*epilogue.*"),
        ({"optimize": "exact", "target": CHIP}, r"all|(?!.*not with).*exact.*|(?!.*not with).*isa.*"),
        ({"optimize": "fast", "target": CHIP, "epilogue": True}, r"all|(?!.*not with).*fast.*|(?!.*not with).*isa.*"),
    ],
)
def test_passes_run_in_the_order_of_the_table(options: dict, level: str) -> None:
    ran = [result.name for result in compile_program(Stateful().eval(), (torch.randn(2, 4),), **options).passes]
    assert ran == [name for name, levels in pass_table() if re.fullmatch(level, levels)]


def test_no_pass_is_left_out_of_the_table() -> None:
    """Every function of the folders of passes that returns a PassResult, or visits nodes as one, has a row."""
    found = set()
    for folder in ("graph", "linear"):
        for file in tracked(f"torch_atalla/compiler/passes/{folder}"):
            text = (ROOT / file).read_text()
            found |= set(re.findall(r"^def ([a-z]\w*)\((?:[^)]|\n)*?\)\s*->[^:]*\bPassResult\b", text, re.M))
            found |= set(re.findall(r"^@node_pass\(.*\)\ndef (\w+)", text, re.M))
    found -= {run_passes.__name__, "run_linear_passes"}
    assert found <= {name for name, _ in pass_table()}


def test_stages_are_files() -> None:
    folder = ROOT / "torch_atalla/compiler"
    table = rows(section(page("concepts/aot.md"), "## Stages"))
    named = [name for _, file, *_ in table for name in code(file)]
    assert len(named) >= 11 and [name for name in named if not (folder / name).exists()] == []


# ------------------------------------------------------------------------------------------------------ public names
def test_public_objects_are_on_the_page_of_the_api() -> None:
    text = page("reference/python-api.md")
    objects = [name for name in torch_atalla.__all__ if not isinstance(getattr(torch_atalla, name), type(torch_atalla))]
    shown = re.findall(r"^\.\. auto(?:function|class):: torch_atalla\.(\w+)$", text, re.M)
    assert sorted(shown) == sorted(objects)


def test_topics_of_the_device_module() -> None:
    text = section(page("concepts/device.md"), "## Modules by topic")
    files = {file.name for file in tracked("torch_atalla/device")} - {"__init__.py"}
    assert set(re.findall(r"\b\w+\.py\b", text)) == files
    topics = {f"{found.__name__.rpartition('.')[2]}.py" for found in (*namespace._TOPICS, *namespace._SUBMODULES)}
    assert topics <= set(re.findall(r"\w+\.py", " ".join(first for first, _ in rows(text))))


def test_members_named_beside_a_file_are_in_it() -> None:
    """`NAME` in path/file.py."""
    checked = 0
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        pairs = re.findall(
            r"`([A-Za-z_]\w*)`\s+(?:in|of)\s+`?((?:[\w-]+/)+[\w-]+\.(?:py|cpp|h|yaml|toml))\b", path.read_text()
        )
        for name, file in pairs:
            places = [found for found in tracked(".") if str(found).endswith(file)]
            assert places, f"{path.name}: {file} does not exist"
            checked += 1
            assert any(name in (ROOT / found).read_text() for found in places), f"{path.name}: no {name} in {file}"
    assert checked >= 5


# ----------------------------------------------------------------------------------------------------------- numbers
def test_parts_of_the_energy() -> None:
    table = rows(section(page("concepts/energy.md"), "## Parts"))
    assert [name for name, _ in table] == [field.name for field in fields(Energy)]


# A page, a sentence of it with its numbers as (\\d...), and the constants of a source that they are.
NUMBERS = [
    (
        "concepts/energy.md",
        r"latest ([\d,]+) launches and copies",
        "torch_atalla/device/sampling.py",
        r"PERIOD = (\d+)",
    ),
    ("concepts/chip.md", r"- (\d+) devices,", "csrc/sim/device/device.h", r"kMaxDevices = (\d+);"),
    ("concepts/chip.md", r"- ([\d,]+) operands per launch", "csrc/sim/abi/atalla.h", r"ATALLA_MAX_OPERANDS (\d+)"),
    ("concepts/chip.md", r"launch, ([\d,]+) dimensions per", "csrc/sim/abi/atalla.h", r"ATALLA_MAX_DIMS (\d+)"),
    ("concepts/chip.md", r"workers spin for ([\d,]+) us", "csrc/sim/host/thread_pool.cpp", r"kSpin = .*\((\d+)\)"),
    (
        "concepts/driver.md",
        r"A queue holds ([\d,]+) launches",
        "csrc/runtime/stream/launch_queue.h",
        r"kCapacity = (\d+);",
    ),
    ("concepts/driver.md", r"poll for work for ([\d,]+) us", "csrc/runtime/stream/spin.h", r"kSpin = .*\((\d+)\)"),
    (
        "concepts/driver.md",
        r"at most ([\d,]+) KiB \| short",
        "csrc/runtime/stream/launch_size.h",
        r"kShortBytes = (\d+) \*",
    ),
    ("concepts/timing.md", r"calendar holds ([\d,]+) idle gaps", "csrc/sim/time/schedule.h", r"kGaps = (\d+);"),
    *(
        ("concepts/compiler-passes.md", words, "csrc/sim/kernels/pointwise/vector_program.h", rf"{name} = (\d+);")
        for words, name in (
            (r"program has at most ([\d,]+) steps", "kProgramSteps"),
            (r"steps, ([\d,]+) inputs,", "kProgramInputs"),
            (r"inputs, ([\d,]+) outputs", "kProgramOutputs"),
            (r"outputs and ([\d,]+) buffers", "kProgramBuffers"),
            (r"tiles of up to ([\d,]+) elements", "kTileElements"),
        )
    ),
    (
        "guides/runtime.md",
        r"for the ([\d,]+) most recently used",
        "csrc/runtime/loadable/program/execute.cpp",
        r"kKept = (\d+);",
    ),
    ("guides/profiler.md", r"latest ([\d,]+) records", "csrc/sim/chip.toml", r"^records = \{ value = ([\d_]+)"),
    (
        "guides/compile.md",
        r"at most ([\d,]+) combinations",
        "torch_atalla/compiler/targets/chip/build.py",
        r"MOST_ASSIGNMENTS = (\d+)",
    ),
]


@pytest.mark.parametrize(("name", "words", "source", "constant"), NUMBERS, ids=lambda text: text)
def test_numbers_are_those_of_the_sources(name: str, words: str, source: str, constant: str) -> None:
    stated = re.search(words, " ".join(page(name).split()))
    defined = re.search(constant, (ROOT / source).read_text(), re.M)
    assert stated is not None, f"{name}: expected {words}"
    assert defined is not None, f"{source}: expected {constant}"
    assert int(stated[1].replace(",", "")) == int(defined[1].replace("_", ""))


def test_number_of_instructions() -> None:
    instructions = re.findall(r"^  - \{name: ", (ROOT / "csrc/sim/isa/isa.yaml").read_text(), re.M)
    assert f"1: Atalla Ax01, {len(instructions)} instructions." in page("reference/loadable-format.md")


def test_numbers_of_handles() -> None:
    registry = (ROOT / "csrc/sim/device/registry.h").read_text()
    streams, events = (
        int(found[1]) * int(found[2])
        for found in (
            re.search(rf"HandleTable<{name}, \w+, (\d+), (\d+)>", registry) for name in ("Stream", "EventSlot")
        )
        if found is not None
    )
    assert f" {streams:,} streams, {events:,} events" in page("concepts/chip.md")


# -------------------------------------------------------------------------------------------------------- comparison
def test_comparison_denies_no_feature_that_the_product_has() -> None:
    text = page("reference/comparison.md")
    simulators = {row[0]: row[1] for row in rows(section(text, "## Simulators"))}
    assert (simulators["energy"] == "no") != FEATURES["energy model"]()
    assert (simulators["sparsity"] == "no") != FEATURES["sparsity in timing"]()
    assert ("DRAM" in simulators["DRAM and network"]) == FEATURES["bank-level DRAM"]()
    assert ("mesh" in simulators["DRAM and network"]) == FEATURES["network inside a chip"]()
