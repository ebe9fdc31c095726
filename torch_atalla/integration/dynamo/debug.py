# SPDX-License-Identifier: BSD-3-Clause
"""Debug output: the artifacts of TORCH_LOGS and the folder that TORCH_COMPILE_DEBUG=1 writes.

torch_compile_debug/run_.../atalla/graph_0/
    fx_graph_readable.py     the graph as AOTAutograd made it
    fx_graph_runnable.py     the same graph as a script that runs it
    fx_graph_transformed.py  the graph that calls the programs and runs the other nodes
    region_0/                one program: graph and launches after every pass, as text and as SVG
        ir_pre_fusion.txt, ir_post_fusion.txt, schedule.txt, output_code.txt, ...
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch._dynamo.utils import get_debug_dir

from torch_atalla.driver import runtime
from torch_atalla.loadable.description import render

NAME = "torch.atalla.compile"
graph_log = torch._logging.getArtifactLogger(NAME, "graph_code")
output_log = torch._logging.getArtifactLogger(NAME, "output_code")
fusion_log = torch._logging.getArtifactLogger(NAME, "fusion")
schedule_log = torch._logging.getArtifactLogger(NAME, "schedule")
hints = torch._logging.getArtifactLogger(NAME, "perf_hints")

_numbers = itertools.count()
_FUSIONS = ("fuse_reductions", "fuse_pointwise", "fuse_epilogues")


def listing(program: runtime.Program) -> str:
    """Return the listing of a program, as `python -m torch_atalla inspect` prints it."""
    return render(program.describe())


class DebugFolder:
    """The debug folder of one graph. Nothing is written unless TORCH_COMPILE_DEBUG=1."""

    def __init__(self) -> None:
        self.path: Path | None = None
        if os.environ.get("TORCH_COMPILE_DEBUG", "0") == "1":
            self.path = Path(get_debug_dir()) / "atalla" / f"graph_{next(_numbers)}"
            self.path.mkdir(parents=True, exist_ok=True)

    def source(self, graph_module: torch.fx.GraphModule, inputs: Sequence[Any]) -> None:
        text = graph_module.print_readable(print_output=False)
        graph_log.debug("%s", text)
        if self.path is None:
            return
        from torch._dynamo.repro.after_aot import save_graph_repro

        (self.path / "fx_graph_readable.py").write_text(text)
        with open(self.path / "fx_graph_runnable.py", "w") as file:
            save_graph_repro(file, graph_module, inputs, "inductor")

    def result(self, graph_module: torch.fx.GraphModule) -> None:
        if self.path is not None:
            text = graph_module.print_readable(print_output=False)
            (self.path / "fx_graph_transformed.py").write_text(text)

    def region(self, number: int) -> Path | None:
        return None if self.path is None else self.path / f"region_{number}"


def log_compiled(compiled: Any) -> None:
    """Log the results of the fusion passes and the memory plan."""
    for result in compiled.passes:
        if result.name in _FUSIONS:
            fusion_log.debug("%s", result)
    schedule_log.debug("%s", compiled.plan)


def write_region(folder: Path | None, program: runtime.Program) -> None:
    """Write the listing, and copies of the pipeline's files under the names that Inductor uses."""
    if output_log.isEnabledFor(10) or folder is not None:
        text = listing(program)
        output_log.debug("%s", text)
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "output_code.txt").write_text(text + "\n")
    if folder is None:
        return
    programs = sorted(folder.glob("*.program.txt"))
    for name, files in (("ir_pre_fusion.txt", programs[:1]), ("ir_post_fusion.txt", programs[-1:])):
        for file in files:
            (folder / name).write_text(file.read_text())
    for file in folder.glob("[0-9][0-9]-plan.txt"):
        (folder / "schedule.txt").write_text(file.read_text())
