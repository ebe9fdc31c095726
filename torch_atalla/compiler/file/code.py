# SPDX-License-Identifier: BSD-3-Clause
"""The Atalla code of a file's methods, and its check against the file's launches."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from torch_atalla.loadable.code import Layout, port_layouts
from torch_atalla.loadable.code_machine import CodeMachine
from torch_atalla.loadable.description import describe
from torch_atalla.loadable.errors import ExportError
from torch_atalla.loadable.file.call_sites import KEY, dump_calls
from torch_atalla.loadable.file.code_section import CodeSection
from torch_atalla.loadable.leaves import method_key
from torch_atalla.loadable.load import load_loadable

from ..targets.chip.build import CompiledNetwork, compile_lowered
from ..targets.chip.check import call_arguments, check_network, example_inputs
from ..targets.chip.network import ALIGN
from ..targets.chip.ports import same_layout
from ..targets.chip.section import call_sites, of_network
from .functional import FileBuilder


def add_code(builder: FileBuilder) -> dict[str, CompiledNetwork]:
    """Compiles the methods of a file to Atalla code, from the launches that the file has as well."""
    networks: dict[str, CompiledNetwork] = {}
    for name, compiled in builder.methods.items():
        assert compiled.lowered is not None
        networks[name] = compile_lowered(compiled.lowered, builder.exported[name])
    states = list(dict.fromkeys(name for method in builder.methods.values() for name in method.program.states))
    code = CodeSection([], b"")
    for number, (name, compiled_network) in enumerate(networks.items()):
        code.constants += bytes(-len(code.constants) % ALIGN)
        made = of_network(compiled_network.network, compiled_network.code, number, states, len(code.constants))
        code.methods += made.methods
        code.constants += made.constants
        builder.metadata[method_key(KEY, name, number)] = dump_calls(call_sites(compiled_network))
    builder.code = code
    builder.check_code = lambda data: builder.report.code.update(check_code(data, builder.path, networks))
    builder.report.engine = "isa"
    builder.report.code = _facts(networks.values())
    return networks


def check_code(data: bytes, path: str, networks: Mapping[str, CompiledNetwork]) -> dict[str, Any]:
    """Raises ExportError if the code of a file gives other ports or values than its launches. Gives the cycles of the
    methods for their example inputs, and those of calls on the scalar core by function and node."""
    cycles, scalar = 0, dict[str, int]()
    with tempfile.TemporaryDirectory(dir=Path(path).parent) as folder:
        whole = os.path.join(folder, "file.atl")
        Path(whole).write_bytes(data)
        description = describe(whole)
        for number, (name, compiled) in enumerate(networks.items()):
            _check_ports(compiled, *port_layouts(description, number))
            given = example_inputs(compiled)
            profile = CodeMachine(whole, given, method=name).profile()
            cycles += profile.stats.cycles
            for call in profile.calls:
                if call.site.function.startswith("core_"):
                    key = f"{call.site.function.rpartition('_')[0]} ({call.site.node})"
                    scalar[key] = scalar.get(key, 0) + call.cycles
            try:
                method = load_loadable(whole).methods[name]  # anew: mutable buffers have their first values
                args, kwargs = call_arguments(compiled, [x.to(method.device) for x in given])
                found = torch.utils._pytree.tree_leaves(method(*args, **kwargs))
            except torch.OutOfMemoryError:  # then with what PyTorch gives on the CPU
                check_network(compiled, given)
                continue
            check_network(compiled, given, [x for x in found if isinstance(x, torch.Tensor)])
    return {"cycles": cycles, "scalar_cycles": scalar}


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


def _facts(networks: Any) -> dict[str, Any]:
    networks = list(networks)
    return {
        "packets": sum(len(n.code) for n in networks),
        "functions": sum(len(n.network.image.functions) for n in networks),
        "calls": sum(len(n.network.image.calls) for n in networks),
        "scalar_calls": sum(len(n.network.scalar_calls) for n in networks),
        "constant_bytes": sum(len(n.network.constants) for n in networks),
        "arena_bytes": max(n.network.arena_bytes for n in networks),
    }


def error_of(compiled: CompiledNetwork, expected: Any) -> dict[str, Any]:
    """Runs the code on the example inputs, and compares with what the float32 model gives."""
    run = compiled.run(example_tensors(compiled))
    wanted = [x for x in torch.utils._pytree.tree_leaves(expected) if isinstance(x, torch.Tensor)]
    cosines, worst = [], 0.0
    for found, exact in zip(run.outputs, wanted):
        a, b = found.double(), exact.double()
        cosines.append(cosine(a, b))
        worst = max(worst, float((a - b).abs().max() / b.abs().max().clamp(min=1e-30)) if a.numel() else 0.0)
    return {"cosine": min(cosines, default=1.0), "largest_error": worst}


def cosine(a: torch.Tensor, b: torch.Tensor) -> float:
    """Of two tensors as vectors. Equal ones have 1, also if they are 0."""
    a, b = a.double().flatten(), b.double().flatten()
    return 1.0 if torch.equal(a, b) else float(a @ b / (a.norm() * b.norm()))


def example_tensors(compiled: CompiledNetwork) -> list[torch.Tensor]:
    leaves = torch.utils._pytree.tree_leaves(compiled.exported.example_inputs)
    return [x for x in leaves if isinstance(x, torch.Tensor)]
