# SPDX-License-Identifier: BSD-3-Clause
"""The Atalla code of a file's methods, and its check against the file's launches."""

from __future__ import annotations

import copy
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Any

import torch

from torch_atalla.loadable.code import Layout, port_layouts
from torch_atalla.loadable.description import describe
from torch_atalla.loadable.errors import ExportError
from torch_atalla.loadable.file.call_sites import KEY, dump_calls
from torch_atalla.loadable.file.code_section import CodeSection
from torch_atalla.loadable.interface import valid_results
from torch_atalla.loadable.leaves import method_key
from torch_atalla.loadable.load import load_loadable

from ..capture.narrow import to_bfloat16
from ..program.ir import LinearProgram
from ..program.layouts import same_layout
from ..schedule.chip_model import ChipModel
from ..targets.chip.build import CompiledNetwork, checked, compile_lowered, planned, sizes_text
from ..targets.chip.check import call_arguments, check_network, example_inputs
from ..targets.chip.decisions import cores_of
from ..targets.chip.network import ALIGN
from ..targets.chip.section import call_sites, method_code
from ..targets.functional.pipeline import Lowered, device_chip
from .functional import FileBuilder

Networks = Sequence[CompiledNetwork]  # of a method, for all sizes that a call may have


class MethodsCode:
    """The code of a file's methods, which are compiled in their order."""

    def __init__(self, exported: Mapping[str, torch.export.ExportedProgram], chip: ChipModel | None = None) -> None:
        """chip: that runs the code; None: that of device 0."""
        self.exported, self.chip = exported, chip
        self.networks: dict[str, Networks] = {}

    def compile(self, lowered: Lowered, program: LinearProgram) -> tuple[int, ...]:
        """Compiles the next method. program: its launches, after their passes. Returns the cores of each."""
        name = list(self.exported)[len(self.networks)]
        networks = self.networks[name] = compile_lowered(lowered, self.exported[name], self.chip or device_chip())
        return cores_of(program, planned(networks).network)


def add_code(
    builder: FileBuilder, networks: Mapping[str, Networks], wide: torch.export.ExportedProgram | None = None
) -> None:
    """Adds the code of its methods to a file.

    wide: the float32 program of the first method if the file was converted from it. The report then states the error.
    """
    states = list(dict.fromkeys(name for method in builder.methods.values() for name in method.program.states))
    code = CodeSection([], b"")
    for number, (name, sizes) in enumerate(networks.items()):
        code.constants += bytes(-len(code.constants) % ALIGN)
        packets, first = sizes[0].code.encode().tobytes(), len(code.constants)
        for item in sizes:
            places: dict[str, Any] = {"states": states, "constants": first, "symbols": item.sizes}
            places["program"] = builder.methods[name].program
            code.methods.append(method_code(item.network, packets, method=number, **places))
        code.constants += sizes[0].network.constants
        builder.metadata[method_key(KEY, name, number)] = dump_calls(call_sites(planned(sizes)))
        builder.golden_sizes[name] = [item.sizes for item in checked(sizes)]
    builder.code = code
    builder.check_code = lambda data: builder.report.code.update(check_code(data, builder.path, networks, wide))
    builder.report.engine = "isa"
    builder.report.residents = sum(len(planned(sizes).network.kept) for sizes in networks.values())
    builder.report.code = _facts(networks.values())


def check_code(
    data: bytes, path: str, networks: Mapping[str, Networks], wide: torch.export.ExportedProgram | None = None
) -> dict[str, Any]:
    """Runs the code of each method for its example inputs: once, or for its smallest, middle and largest sizes.

    Returns, for the largest sizes, cycles and joules, those cycles of calls on the scalar core by function and node,
    and, with the float32 program `wide` of the first method, how far the results are from its; and cycles and joules by
    method and sizes.
    Raises ExportError if the code gives other ports or values than the launches of the file.
    """
    cycles, joules, scalar, error = 0, 0.0, dict[str, int](), dict[str, float]()
    by_size, joules_by_size = dict[str, int](), dict[str, float]()
    with tempfile.TemporaryDirectory(dir=Path(path).parent) as folder:
        whole = os.path.join(folder, "file.atl")
        Path(whole).write_bytes(data)
        description = describe(whole)
        for number, (name, sizes) in enumerate(networks.items()):
            largest = planned(sizes)
            _check_ports(largest, *port_layouts(description, number))
            for compiled in checked(sizes):
                given = example_inputs(compiled)
                run = check_network(compiled, given, _launched(whole, name, compiled, given), timing=True, chip=0)
                if compiled.sizes:
                    text = sizes_text(compiled.captured, compiled.program, compiled.sizes)
                    by_size[f"{name}, {text}"] = run.whole.cycles
                    joules_by_size[f"{name}, {text}"] = run.whole.energy.joules
                if compiled is not largest:
                    continue
                cycles += run.whole.cycles
                joules += run.whole.energy.joules
                for call in run.profile.calls:
                    if call.site.function.startswith("core_"):
                        key = f"{call.site.function.rpartition('_')[0]} ({call.site.node})"
                        scalar[key] = scalar.get(key, 0) + call.cycles
                if wide is not None and number == 0:
                    results = valid_results(run.outputs, compiled.captured.result_sizes)
                    error = _error(results, _wide_outputs(wide, compiled, given))
    whole_run = {"cycles": cycles, "joules": joules, "scalar_cycles": scalar}
    return {**whole_run, "cycles_by_size": by_size, "joules_by_size": joules_by_size, **error}


def _launched(
    path: str, name: str, compiled: CompiledNetwork, given: Sequence[torch.Tensor]
) -> list[torch.Tensor] | None:
    """What the launches of the file's method give; None where the device has no room for them."""
    try:
        method = load_loadable(path).methods[name]  # anew: mutable buffers have their first values
        args, kwargs = call_arguments(compiled, [x.to(method.device) for x in given])
        return method.tensors(*args, **kwargs)
    except torch.OutOfMemoryError:
        return None


def _check_ports(compiled: CompiledNetwork, inputs: list[Layout], outputs: list[Layout]) -> None:
    network = compiled.network
    for port, (name, dtype, sizes, strides) in zip(
        [*network.inputs, *network.outputs], [*inputs, *outputs], strict=True
    ):
        if (port.dtype, port.sizes) != (dtype, sizes) or not same_layout(sizes, port.strides, strides):
            raise ExportError(
                f"the chip code's port {name} is {port.dtype} of {list(port.sizes)} with strides "
                f"{list(port.strides)}; the program's is {dtype} of {list(sizes)} with strides {list(strides)}"
            )


def _facts(methods: Iterable[Networks]) -> dict[str, Any]:
    methods = list(methods)
    networks = [planned(sizes) for sizes in methods]
    return {
        "packets": sum(len(n.code) for n in networks),
        "functions": sum(len(n.network.image.functions) for n in networks),
        "calls": sum(len(n.network.image.calls) for n in networks),
        "scalar_calls": sum(len(n.network.scalar_calls) for n in networks),
        "constant_bytes": sum(len(n.network.constants) for n in networks),
        "arena_bytes": max(n.network.arena_bytes for sizes in methods for n in sizes),
        "sizes": sum(map(len, methods)),
    }


def _wide_outputs(
    wide: torch.export.ExportedProgram, compiled: CompiledNetwork, given: Sequence[torch.Tensor]
) -> list[torch.Tensor]:
    """What the float32 program gives on the CPU. Of its example inputs, those that were not narrowed to `given` are
    replaced."""
    leaves = torch.utils._pytree.tree_leaves(wide.example_inputs)
    examples = [x for x in leaves if isinstance(x, torch.Tensor)]
    inputs = [x if torch.equal(to_bfloat16(x), y) else y.to(x.dtype) for x, y in zip(examples, given, strict=True)]
    args, kwargs = call_arguments(compiled, inputs)
    with torch.no_grad():
        outputs = copy.deepcopy(wide.module(check_guards=False))(*args, **kwargs)  # its mutable buffers change
    return [x for x in torch.utils._pytree.tree_leaves(outputs) if isinstance(x, torch.Tensor)]


def _error(outputs: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> dict[str, float]:
    """The smallest cosine of an output to the expected one, and the largest error relative to the largest element."""
    cosines, worst = [], 0.0
    for found, exact in zip(outputs, expected, strict=True):
        if found.shape != exact.shape:  # another number of elements meets a condition
            return {"cosine": 0.0, "largest_error": inf}
        a, b = found.double(), exact.double()
        cosines.append(cosine(a, b))
        worst = max(worst, float((a - b).abs().max() / b.abs().max().clamp(min=1e-30)) if a.numel() else 0.0)
    return {"cosine": min(cosines, default=1.0), "largest_error": worst}


def cosine(a: torch.Tensor, b: torch.Tensor) -> float:
    """Of two tensors as vectors. Equal ones have 1, also if they are 0."""
    a, b = a.double().flatten(), b.double().flatten()
    return 1.0 if torch.equal(a, b) else float(a @ b / (a.norm() * b.norm()))
