# SPDX-License-Identifier: BSD-3-Clause
"""The first stage: a module or an exported program becomes a functional ATen graph with its constants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind, TensorArgument

from .decompositions import decomposition_table
from .errors import ExportError
from .support import SupportTable, support_table

_CONSTANT_KINDS = {
    InputKind.PARAMETER: "parameter",
    InputKind.BUFFER: "buffer",
    InputKind.CONSTANT_TENSOR: "constant",
}


@dataclass
class Constant:
    """A tensor that does not depend on what the caller gives."""

    tensor: torch.Tensor
    kind: str  # "parameter", "buffer" or "constant"
    fqn: str = ""  # its name in the state dict


@dataclass(frozen=True)
class Leaf:
    """A leaf of the call's or of the result's pytree: a tensor of the graph, or a Python value fixed at export."""

    name: str
    is_tensor: bool = True
    value: Any = None


@dataclass
class Captured:
    """A graph in ATen ops, without mutation, with its constants and calling convention."""

    graph_module: torch.fx.GraphModule
    constants: dict[str, Constant]  # placeholder or get_attr node -> constant
    inputs: list[Leaf]  # in the order of the flattened call
    outputs: list[Leaf]
    in_spec: torch.utils._pytree.TreeSpec
    out_spec: torch.utils._pytree.TreeSpec
    model: str  # class name of the module, where the graph tells

    @property
    def graph(self) -> torch.fx.Graph:
        return self.graph_module.graph

    def __str__(self) -> str:
        inputs = ", ".join(leaf.name for leaf in self.inputs)
        return f"inputs: {inputs}; {len(self.constants)} constants\n{self.graph}"


def capture(
    program: torch.export.ExportedProgram | torch.nn.Module,
    args: tuple | None = None,
    kwargs: Mapping[str, Any] | None = None,
    support: SupportTable | None = None,
) -> Captured:
    """Decomposes to the ops that lowering knows.

    A module is exported first, in eval mode or not as it stands, with `args` and `kwargs` as example inputs. Raises
    ExportError for what the format has no room for: mutated inputs or buffers, symbolic sizes.
    """
    if isinstance(program, torch.nn.Module):
        if args is None and kwargs is None:
            raise ExportError("a module needs example inputs: give args=(...), or an ExportedProgram")
        with torch.no_grad():
            program = torch.export.export(program, tuple(args or ()), dict(kwargs or {}))
    if not isinstance(program, torch.export.ExportedProgram):
        raise ExportError(f"expected an ExportedProgram or a Module, got {type(program).__name__}")
    _check_shapes(program)
    _check_mutation(program)
    with torch.no_grad():
        decomposed = program.run_decompositions(decomposition_table(support_table() if support is None else support))
    _check_mutation(decomposed)
    return Captured(
        graph_module=decomposed.graph_module,
        constants=_constants(decomposed),
        inputs=_inputs(decomposed),
        outputs=[_leaf(spec.arg) for spec in decomposed.graph_signature.output_specs],
        in_spec=decomposed.call_spec.in_spec,
        out_spec=decomposed.call_spec.out_spec,
        model=_model_name(program),
    )


def _leaf(arg: Any) -> Leaf:
    if isinstance(arg, TensorArgument):
        return Leaf(arg.name)
    if isinstance(arg, ConstantArgument):
        return Leaf(arg.name, is_tensor=False, value=arg.value)
    raise ExportError(f"{arg.name} is a {type(arg).__name__}; expected a tensor or a Python value")


def _inputs(program: torch.export.ExportedProgram) -> list[Leaf]:
    leaves = []
    for spec in program.graph_signature.input_specs:
        if spec.kind is InputKind.USER_INPUT:
            leaves.append(_leaf(spec.arg))
        elif spec.kind not in _CONSTANT_KINDS:
            raise ExportError(f"input {spec.arg.name} is a {spec.kind.name.lower()}; expected tensors only")
    return leaves


def _constants(program: torch.export.ExportedProgram) -> dict[str, Constant]:
    constants = {}
    for spec in program.graph_signature.input_specs:
        if spec.kind in _CONSTANT_KINDS:
            store = program.state_dict if spec.target in program.state_dict else program.constants
            constants[spec.arg.name] = Constant(store[spec.target].detach(), _CONSTANT_KINDS[spec.kind], spec.target)
    return constants


def _check_mutation(program: torch.export.ExportedProgram) -> None:
    for spec in program.graph_signature.output_specs:
        if spec.kind is not OutputKind.USER_OUTPUT:
            if spec.kind is OutputKind.TOKEN:
                raise ExportError("the program calls an op with side effects; expected one that only returns values")
            what = spec.kind.name.lower().replace("_", " ")
            raise ExportError(
                f"the program writes to {spec.target or spec.arg.name!r} ({what}); expected a program that only "
                "returns values"
            )


def _check_shapes(program: torch.export.ExportedProgram) -> None:
    for node in program.graph.find_nodes(op="placeholder"):
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor):
            continue
        for dim, size in enumerate(value.shape):
            if not isinstance(size, int):
                raise ExportError(
                    f"input {node.name}: dimension {dim} is symbolic ({size}); expected specialised sizes: export "
                    "without dynamic_shapes"
                )


def _model_name(program: torch.export.ExportedProgram) -> str:
    for node in program.graph.nodes:
        for path, kind in (node.meta.get("nn_module_stack") or {}).values():
            if path == "":
                return kind.rpartition(".")[2] if isinstance(kind, str) else kind.__name__
    return ""
