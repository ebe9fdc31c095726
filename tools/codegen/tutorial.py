# SPDX-License-Identifier: BSD-3-Clause
"""Pages of docs/tutorials whose sections are scripts, each with what it prints.

    python -m tools.codegen.tutorial [PAGE...]

test/docs/test_tutorials.py holds the pages to the scripts, except for the numbers that they print.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Page:
    """A page of several scripts has an introduction; a page of one script has its docstring."""

    folder: str
    scripts: tuple[str, ...]
    introduction: str = ""
    links: str = ""

    def path(self, script: str) -> Path:
        return ROOT / "examples" / self.folder / f"{script}.py"


COMPILE = """# torch.compile by example

Each section is a script of examples/compile, and what it printed on this page's last update (`make docs`). Times are of
the machine that wrote it; cycles are simulated and the same everywhere. [Compile and export](../guides/compile.md)
describes modes and options."""
COMPILE_SCRIPTS = (
    *("backends", "capture", "custom_backend", "patterns", "dynamic_shapes"),
    *("memory", "modes", "debugging", "cache"),
)


def _one(script: str, *links: str) -> Page:
    return Page("tutorials", (script,), links="\n".join(f"- {link}" for link in links))


# Name of the page -> its scripts.
PAGES = {
    "compile": Page("compile", COMPILE_SCRIPTS, COMPILE),
    "first-tensor": _one(
        "first_tensor",
        "[torch.atalla](../concepts/device.md): the device module",
        "[The simulated chip](../concepts/chip.md): the hardware behind the counters",
    ),
    "port-cuda": _one(
        "port_cuda",
        "[Names of torch.cuda](../reference/cuda-names.md): present, or absent with a reason",
        "[Mixed precision](../guides/amp.md): autocast policies and gradient scaling",
    ),
    "ship-loadable": _one(
        "ship_loadable",
        "[The runtime without Python](../guides/runtime.md): the C and C++ interfaces, and `atalla-run`",
        "[Ahead of time](../concepts/aot.md): the compiler that writes the file",
    ),
    "profile": _one(
        "profile_model",
        "[Profiler and traces](../guides/profiler.md): rows, columns and traces for Perfetto",
        "[From a launch to cycles](../concepts/timing.md): the cost model",
    ),
    "fx-pass": _one(
        "fx_pass",
        "[Compiler passes](../concepts/compiler-passes.md): the passes that `save_loadable` runs",
        "[explore_fx_graph.py](../../examples/explore_fx_graph.py): graphs of torch.fx and torch.export side by side",
    ),
    "assembly": _one(
        "assembly",
        "[Atalla code](../guides/isa.md): the language and the packet checker",
        "[softmax.s](../../examples/assembly/softmax.s), [matmul.s](../../examples/assembly/matmul.s): "
        "whole kernels, with [their cycles](../guides/triton-code.md) beside those of Triton's and of built-in code",
        "[Writing a kernel](../guides/writing-a-chip-kernel.md): kernels that the compiler generates",
    ),
    "triton-kernel": _one(
        "triton_kernel",
        "[Triton kernels](../guides/triton.md): what runs, on both engines",
        "[Tile programs](../concepts/tile-programs.md): from TTIR to launches and to Atalla code",
        "[Cycles of Triton kernels as Atalla code](../guides/triton-code.md), beside the built-in kernels'",
    ),
    "several-devices": _one(
        "several_devices",
        "[Distributed](../guides/distributed.md): collectives, FSDP2, DTensor, and the links between chips",
        "[ddp_gpt.py](../../examples/ddp_gpt.py): a GPT with DistributedDataParallel or FSDP2",
    ),
}


def where(name: str) -> Path:
    return ROOT / f"docs/tutorials/{name}.md"


def output(path: Path) -> str:
    """The output of a script, without log lines."""
    words = [sys.executable, "-W", "ignore", str(path)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(ROOT)})
    if done.returncode:
        raise RuntimeError(f"{path.relative_to(ROOT)}: exit status {done.returncode}\n{done.stderr}")
    return done.stdout.strip()


def without_numbers(text: str) -> str:
    """For comparison: numbers differ from machine to machine, and so do spaces around them."""
    return re.sub(r" +", " ", re.sub(r"\d[\d.,]*(e[-+]\d+)?", "N", text))


def section(path: Path, printed: str, mark: str = "##") -> str:
    """Heading, explanation, code and output of a script."""
    source = path.read_text()
    title, _, explanation = (ast.get_docstring(ast.parse(source)) or "").partition(":")
    code = source.split('"""\n', 1)[1].strip().removeprefix("from __future__ import annotations\n").strip()
    about = "\n\n".join(part for part in explanation.strip().split("\n\n") if not part.startswith("python "))
    about = re.sub(r"\bdocs/([\w-]+/([\w-]+\.md))", r"[\2](../\1)", about)
    about = re.sub(r"\bexamples/(?:\w+/)*(\w+\.\w+)", r"[\1](../../\g<0>)", about)
    if mark == "#":
        about = f"This page shows {about}\n\nRun it with `python {path.relative_to(ROOT)}`."
    text = f"{about[0].upper()}{about[1:]}"
    return f"{mark} {title}\n\n{text}\n\n```python\n{code}\n```\n\n```text\n{printed}\n```"


def text_of(name: str) -> str:
    """The page as it should be; runs its scripts."""
    page = PAGES[name]
    if page.introduction:
        return (
            "\n\n".join([page.introduction, *(section(page.path(s), output(page.path(s))) for s in page.scripts)])
            + "\n"
        )
    (path,) = map(page.path, page.scripts)
    return f"{section(path, output(path), '#')}\n\n## Further pages\n\n{page.links}\n"


if __name__ == "__main__":
    for name in sys.argv[1:] or PAGES:
        where(name).write_text(text_of(name))
