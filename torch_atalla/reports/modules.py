# SPDX-License-Identifier: BSD-3-Clause
"""The module tree of a model, with the cost of each module."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .program import Program
from .timeline import Span


@dataclass
class Module:
    """One module with all that is below it. The root has the path "".

    cycles, joules: of launches alone. bytes: DRAM traffic. ops, native: nodes that compute, and those that run on the
    chip. A launch that computes nodes of several modules counts for the module of its last node.
    """

    path: str
    parent: int | None
    cycles: int = 0
    bytes: int = 0
    launches: int = 0
    host_calls: int = 0
    ops: int = 0
    native: int = 0
    flops: int = 0
    joules: float = 0.0


def module_tree(program: Program, spans: Sequence[Span]) -> list[Module]:
    """Return all modules in the order of their first node, each after its parent."""
    modules = [Module("", None)]
    number = {"": 0}

    def find(path: str) -> int:
        if path not in number:
            parent = find(path.rpartition(".")[0])
            number[path] = len(modules)
            modules.append(Module(path, parent))
        return number[path]

    def add(path: str, **amounts: float) -> None:
        at: int | None = find(path)
        while at is not None:
            for name, amount in amounts.items():
                setattr(modules[at], name, getattr(modules[at], name) + amount)
            at = modules[at].parent

    for node in program.nodes:
        if node.view:
            find(node.module)
        else:
            add(node.module, ops=1, native=int(node.native), flops=node.flops)
    paths = ["" if inst.node is None else program.nodes[inst.node].module for inst in program.instructions]
    for path, inst in zip(paths, program.instructions):
        add(path, launches=int(inst.kind != "host_call"), host_calls=int(inst.kind == "host_call"))
    for span in spans:
        if span.instruction is not None:
            add(paths[span.instruction], cycles=span.alone, bytes=span.bytes, joules=span.joules)
    return modules
