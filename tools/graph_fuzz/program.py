# SPDX-License-Identifier: BSD-3-Clause
"""A program under test, as data that can be changed and as the Python text that runs."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from types import CodeType
from typing import Any

import torch

_NAME = re.compile(r"\b(?:self\.)?([xvwb]\d+)\b")


def names_in(text: str) -> set[str]:
    """Values that a statement or expression mentions: inputs x, results v, parameters w, buffers b."""
    return set(_NAME.findall(text))


@dataclass(frozen=True)
class Line:
    """A statement of `forward`. `defines` are the names on the left; a statement without any works in place."""

    text: str
    defines: tuple[str, ...] = ()
    template: str = ""

    def uses(self) -> set[str]:
        return names_in(self.text) - set(self.defines)


@dataclass(frozen=True)
class Program:
    """`inputs`, `parameters` and `buffers` map names to the expressions that make them. `dynamic`: "", or "free" or
    "bounded" for a first dimension whose size the call determines, or "nested" for `dims`, expressions of symbols
    whose values are `sizes`: those of the example first."""

    inputs: dict[str, str] = field(default_factory=dict)
    parameters: dict[str, str] = field(default_factory=dict)
    buffers: dict[str, str] = field(default_factory=dict)
    lines: tuple[Line, ...] = ()
    outputs: tuple[str, ...] = ()
    dynamic: str = ""
    checks: tuple[str, ...] = ()
    chip: bool = False  # drawn from the ops that chip code knows
    dims: dict[str, tuple[str, ...]] = field(default_factory=dict)
    sizes: tuple[dict[str, int], ...] = ()

    def without_dead_code(self) -> Program:
        """Drops results, parameters, buffers and inputs that no output depends on. Statements that work in place stay
        if they touch a value that stays."""
        live = {name for output in self.outputs for name in names_in(output)}
        kept = [False] * len(self.lines)
        changed = True
        while changed:
            changed = False
            for k, line in enumerate(self.lines):
                if not kept[k] and (set(line.defines) if line.defines else line.uses()) & live:
                    kept[k] = changed = True
                    live |= line.uses() | set(line.defines)
        return replace(
            self,
            lines=tuple(line for line, keep in zip(self.lines, kept) if keep),
            inputs={name: text for name, text in self.inputs.items() if name in live},
            parameters={name: text for name, text in self.parameters.items() if name in live},
            buffers={name: text for name, text in self.buffers.items() if name in live},
        )

    def source(self, comment: str = "") -> str:
        """The text of a case file."""
        head = [f"# {comment}"] if comment else []
        head += ["import torch", "import torch.nn.functional as F", "", f"CHECKS = {tuple(self.checks)!r}"]
        head += [f'DYNAMIC = "{self.dynamic}"'] if self.dynamic else []
        head += self._symbols() if self.sizes else []
        members = [f"        self.{name} = torch.nn.Parameter({text})" for name, text in self.parameters.items()]
        members += [f'        self.register_buffer("{name}", {text})' for name, text in self.buffers.items()]
        init = ["    def __init__(self):", "        super().__init__()", *members, ""] if members else []
        body = [f"        {line.text}" for line in self.lines]
        arguments = "".join(f", {name}" for name in self.inputs)
        values = "".join(f"    {text},\n" for text in self.inputs.values())
        given = f"args = (\n{values})"
        if self.sizes:
            values = "".join(f"        {text},\n" for text in self.inputs.values())
            given = f"def arguments({', '.join(self.sizes[0])}):\n    return (\n{values}    )\n\n\n"
            given += "args = arguments(**SIZES[0])"
        return "\n".join(
            [
                *head,
                "",
                "",
                "class M(torch.nn.Module):",
                *init,
                f"    def forward(self{arguments}):",
                *body,
                f"        return ({''.join(f'{output}, ' for output in self.outputs).rstrip()})",
                "",
                "",
                given,
                "",
            ]
        )

    def _symbols(self) -> list[str]:
        sizes = "".join(f"    {values!r},\n" for values in self.sizes)
        dims = "".join(f"    {self.dims[name]!r},\n" for name in self.inputs)
        return [f"SIZES = (\n{sizes})", f"DIMS = (\n{dims})"]


@lru_cache(maxsize=4)  # a case runs a dozen times
def _compiled(text: str, name: str) -> CodeType:
    return compile(text, name, "exec")


@dataclass(frozen=True)
class Case:
    """A case file. `build` gives the same module and arguments each time, all memory new."""

    text: str
    name: str = "case"

    def build(self, seed: int = 0) -> tuple[torch.nn.Module, tuple[Any, ...]]:
        namespace = self._run(seed)
        return namespace["M"]().eval(), tuple(namespace["args"])

    def _run(self, seed: int) -> dict[str, Any]:
        torch.manual_seed(seed)
        namespace: dict[str, Any] = {"torch": torch, "F": torch.nn.functional, "__name__": self.name}
        exec(_compiled(self.text, self.name), namespace)
        return namespace

    @property
    def checks(self) -> tuple[str, ...]:
        return tuple(self._run(0)["CHECKS"])

    @property
    def dynamic(self) -> str:
        return str(self._run(0).get("DYNAMIC", ""))

    @property
    def sizes(self) -> tuple[dict[str, int], ...]:
        """The values of the symbols, one set per call."""
        return tuple(self._run(0)["SIZES"])

    @property
    def dims(self) -> tuple[tuple[str, ...], ...]:
        """Of each argument, as expressions of the symbols."""
        return tuple(self._run(0)["DIMS"])

    def arguments(self, sizes: dict[str, int], seed: int = 0) -> tuple[Any, ...]:
        """The arguments at these values of the symbols."""
        return tuple(self._run(seed)["arguments"](**sizes))

    @staticmethod
    def read(path: Path) -> Case:
        return Case(path.read_text(), path.stem)
