# SPDX-License-Identifier: BSD-3-Clause
"""The IR of tile programs: typed values, ops with regions, and how it prints.

It has the ops of Triton's TTIR, under the names that MLIR's dialects give them: `arith.addf`, `tt.load`, `scf.for`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

WIDTHS = {
    "i1": 8, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "f16": 16, "bf16": 16, "f32": 32, "f64": 64,
    "f8E4M3FN": 8, "f8E5M2": 8, "f8E4M3FNUZ": 8, "f8E5M2FNUZ": 8, "ptr": 64,
}  # fmt: skip


class TileError(Exception):
    """A program that cannot be expressed; `line` is where its source says so, or None."""

    def __init__(self, message: str, location: Location | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.location = location


@dataclasses.dataclass(frozen=True)
class Location:
    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclasses.dataclass(frozen=True)
class Type:
    """A scalar (shape ()) or a tile. `element` is a name of WIDTHS; `pointee` is the element type of a pointer."""

    element: str
    shape: tuple[int, ...] | None = None
    pointee: str | None = None

    @property
    def dims(self) -> tuple[int, ...]:
        return self.shape or ()

    @property
    def count(self) -> int:
        return math.prod(self.dims)

    def with_element(self, element: str) -> Type:
        return Type(element, self.shape)

    def __str__(self) -> str:
        element = f"!tt.ptr<{self.pointee}>" if self.element == "ptr" else self.element
        return element if self.shape is None else f"tensor<{''.join(f'{n}x' for n in self.shape)}{element}>"


@dataclasses.dataclass(eq=False)
class Value:
    name: str
    type: Type

    def __str__(self) -> str:
        return self.name


@dataclasses.dataclass(eq=False)
class Op:
    name: str
    operands: list[Value]
    results: list[Value]
    attributes: dict[str, Any]
    regions: list[Region]
    location: Location | None = None
    successors: list[str] = dataclasses.field(default_factory=list)  # labels of blocks, of a branch
    passed: list[list[Value]] = dataclasses.field(default_factory=list)  # operands that are the blocks' arguments

    def fail(self, message: str) -> TileError:
        return TileError(f"{self.name}: {message}", self.location)

    def lines(self, indent: str = "") -> Iterator[str]:
        left = ", ".join(map(str, self.results))
        attributes = ", ".join(f"{k} = {v}" for k, v in self.attributes.items())
        text = f"{indent}{left + ' = ' if left else ''}{self.name} {', '.join(map(str, self.operands))}"
        text += f" {{{attributes}}}" if attributes else ""
        pairs = zip(self.successors, self.passed, strict=True)
        text += "".join(f" ^{label}({', '.join(map(str, values))})" for label, values in pairs)
        text += f" : {', '.join(str(r.type) for r in self.results)}" if self.results else ""
        if not self.regions:
            yield text
            return
        for i, region in enumerate(self.regions):
            yield f"{text if i == 0 else indent + '}'} {{"
            yield from region.lines(indent + "  ")
        yield indent + "}"


@dataclasses.dataclass(eq=False)
class Block:
    label: str
    arguments: list[Value]
    ops: list[Op]


@dataclasses.dataclass(eq=False)
class Region:
    blocks: list[Block]

    @property
    def entry(self) -> Block:
        return self.blocks[0]

    def all_blocks(self) -> Iterator[Block]:
        """Also those of regions in it."""
        for block in self.blocks:
            yield block
            for op in block.ops:
                for inner in op.regions:
                    yield from inner.all_blocks()

    def lines(self, indent: str = "") -> Iterator[str]:
        for block in self.blocks:
            if block.arguments or block is not self.entry:
                yield f"{indent}^{block.label}({', '.join(f'{a}: {a.type}' for a in block.arguments)}):"
            for op in block.ops:
                yield from op.lines(indent)


@dataclasses.dataclass(eq=False)
class Function:
    name: str
    arguments: list[Value]
    body: Region
    is_public: bool
    location: Location | None = None

    def __str__(self) -> str:
        arguments = ", ".join(f"{a}: {a.type}" for a in self.arguments)
        return "\n".join([f"tile @{self.name}({arguments}) {{", *self.body.lines("  "), "}"])
