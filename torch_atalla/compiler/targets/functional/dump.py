# SPDX-License-Identifier: BSD-3-Clause
"""What every stage and pass left, as files: NN-name.graph.txt and .svg, NN-name.program.txt, plan.txt and plan.svg,
passes.txt, listing.txt."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from ...capture.capture import Captured
from ...program.ir import LinearProgram
from ...schedule.plan import MemoryPlan
from .drawing import draw_graph, draw_plan


class Dump:
    """Writes nothing when it has no directory."""

    def __init__(self, directory: str | os.PathLike | None):
        self.directory = None if directory is None else Path(directory)
        self.number = 0
        if self.directory is not None:
            self.directory.mkdir(parents=True, exist_ok=True)

    def graph(self, name: str, captured: Captured) -> None:
        self._write(f"{name}.graph.txt", lambda: str(captured))
        self._write(f"{name}.graph.svg", lambda: draw_graph(captured.graph), same=True)

    def program(self, name: str, program: LinearProgram) -> None:
        self._write(f"{name}.program.txt", lambda: str(program))

    def plan(self, program: LinearProgram, plan: MemoryPlan) -> None:
        self._write("plan.txt", lambda: str(plan))
        self._write("plan.svg", lambda: draw_plan(plan), same=True)

    def passes(self, results: Iterable[object]) -> None:
        """What each pass did, one a line."""
        self._write("passes.txt", lambda: "\n".join(map(str, results)))

    def listing(self, text: str) -> None:
        """The finished file as inspect prints it, methods and all: it has no number."""
        if self.directory is not None:
            (self.directory / "listing.txt").write_text(text + "\n")

    def _write(self, name: str, text: Callable[[], str], same: bool = False) -> None:
        if self.directory is not None:
            self.number += not same
            (self.directory / f"{self.number:02d}-{name}").write_text(text() + "\n")
