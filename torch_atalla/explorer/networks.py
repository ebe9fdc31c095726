# SPDX-License-Identifier: BSD-3-Clause
"""The networks of a study, compiled for a variant of the chip."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from torch_atalla.compiler.capture.capture import capture, decompose, mutated_buffers
from torch_atalla.compiler.capture.narrow import narrowed
from torch_atalla.compiler.file.functional import Options as FileOptions
from torch_atalla.compiler.file.functional import file_builder
from torch_atalla.compiler.schedule import ChipModel
from torch_atalla.compiler.targets.functional.pipeline import Lowered, Options, lower_captured, plan_lowered


@dataclass(frozen=True)
class Network:
    """`path`: a program written by torch.export.save (.pt2), which is compiled for every variant, or a loadable (.atl),
    which runs as it is."""

    name: str
    path: str

    @property
    def is_loadable(self) -> bool:
        return self.path.endswith(".atl")

    def file(self, chip: ChipModel, options: dict[str, Any]) -> bytes:
        """The loadable for a chip. Raises ExportError for a program that cannot become one."""
        if self.is_loadable:
            if options:
                raise ValueError(f"{self.path} is compiled already; options of the compiler need a .pt2 file")
            return Path(self.path).read_bytes()
        options = dict(options)
        if options.pop("engine", "functional" if "weights" in options else "isa") == "isa":
            return self._with_code(chip, options)
        exported = _program(self.path)
        compiled = plan_lowered(_lowered(self.path, *sorted(options.items())), _options(options))
        kept = FileOptions(verify=False, golden=False, seed=0, weights=options.get("weights"), sign=None, dump=None)
        return file_builder(self.name, {"forward": exported}, {"forward": compiled}, kept).build()

    def _with_code(self, chip: ChipModel, options: dict[str, Any]) -> bytes:
        """In bfloat16, with the Atalla code of the program for the chip."""
        from torch_atalla.compiler.file.code import MethodsCode, add_code  # imported lazily, as the chip target
        from torch_atalla.compiler.targets.chip.fusion import CHIP

        if options.get("weights") is not None:
            raise ValueError(f"compile.weights is {options['weights']}; expected float32 beside compile.engine=isa")
        exported = _narrow_program(self.path)
        code = MethodsCode({"forward": exported}, chip)
        wanted = {"optimize": "fast", "target": CHIP, "cores": code.compile} | options
        compiled = plan_lowered(_lower(exported, wanted), _options(wanted))
        kept = FileOptions(verify=False, golden=False, seed=0, weights=None, sign=None, dump=None)
        builder = file_builder(self.name, {"forward": exported}, {"forward": compiled}, kept)
        add_code(builder, code.networks)
        builder.check_code = lambda data: None  # the variant's chip runs it
        return builder.build()

    def example(self) -> tuple[list[torch.Tensor], list[torch.Tensor]] | None:
        """The example inputs, and what the program gives for them on the CPU; None for a loadable."""
        return None if self.is_loadable else _example(self.path)


def _options(options: dict[str, Any]) -> Options:
    return Options(fallback="error", **options)


# A process evaluates many variants of few networks.
@lru_cache(maxsize=8)
def _program(path: str) -> torch.export.ExportedProgram:
    return torch.export.load(path)


@lru_cache(maxsize=8)
def _narrow_program(path: str) -> torch.export.ExportedProgram:
    return narrowed(_program(path))


@lru_cache(maxsize=8)
def _lowered(path: str, *options: tuple[str, Any]) -> Lowered:
    return _lower(_program(path), dict(options))


def _lower(exported: torch.export.ExportedProgram, options: dict[str, Any]) -> Lowered:
    decomposed = decompose(exported)
    captured = capture(exported, decomposed=decomposed, states=mutated_buffers(decomposed))
    return lower_captured(captured, _options(options))


@lru_cache(maxsize=8)
def _example(path: str) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    program = _program(path)
    leaves = torch.utils._pytree.tree_leaves(program.example_inputs)
    if program.example_inputs is None:
        raise ValueError(f"{path} has no example inputs; expected those that torch.export.export stores")
    given = [x.detach() for x in leaves if isinstance(x, torch.Tensor)]
    args, kwargs = program.example_inputs
    with torch.no_grad():
        outputs = program.module(check_guards=False)(*args, **kwargs)
    return given, [x for x in torch.utils._pytree.tree_leaves(outputs) if isinstance(x, torch.Tensor)]
