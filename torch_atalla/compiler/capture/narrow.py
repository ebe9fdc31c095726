# SPDX-License-Identifier: BSD-3-Clause
"""A float32 program as a bfloat16 one."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Collection
from typing import Any

import torch
from torch.export.graph_signature import InputKind
from torch.utils import _pytree as pytree
from torch.utils._sympy.numbers import int_oo

from torch_atalla.loadable.errors import ExportError

from ..program.support import op_key
from .capture import model_name, mutated_buffers

aten = torch.ops.aten
MOST = torch.finfo(torch.bfloat16).max


def narrowed(program: torch.export.ExportedProgram, states: Collection[str] = ()) -> torch.export.ExportedProgram:
    """The program with parameters, mutable buffers and floating-point inputs in bfloat16.

    What the program computes in float32 without them, as positions and masks, stays so until it meets a bfloat16
    tensor. Then it is converted, and numbers beyond the range of bfloat16 become its largest ones. Sizes that the
    export left to the call stay so. states: buffers that other methods write. Raises ExportError for a program without
    example inputs.
    """
    if program.example_inputs is None:
        raise ExportError("convert: the exported program has no example inputs; give args=(...)")
    args, kwargs = pytree.tree_map(to_bfloat16, program.example_inputs)
    with torch.no_grad():
        forward = _forward(program, args, kwargs)
        named = type(model_name(program) or "Narrow", (_Narrow,), {"forward": forward})
        names = list(inspect.signature(forward).parameters)[1:]
        shapes = dynamic_shapes(program, dict(zip(names, args)) | kwargs)
        result = torch.export.export(named(program, states), args, kwargs, dynamic_shapes=shapes)
    _take_sources(result.graph, program.graph)
    return result


def dynamic_shapes(program: torch.export.ExportedProgram, given: dict[str, Any]) -> dict[str, Any] | None:
    """The `dynamic_shapes` with which a program was exported. given: its example inputs by argument; those of its
    tensors are the program's inputs in order. None if all sizes are fixed."""
    found: dict[Any, Any] = {}

    def dimension(size: Any) -> Any:
        expr = size.node.shape_env.replace(size.node.expr)
        if expr.is_number:
            return None
        (symbol,) = expr.free_symbols
        if symbol not in found:
            bounds = program.range_constraints[symbol]
            most = None if bounds.upper is int_oo else int(bounds.upper)
            found[symbol] = torch.export.Dim(str(symbol), min=int(bounds.lower), max=most)
        factor, offset = expr.coeff(symbol, 1), expr.coeff(symbol, 0)
        dim = found[symbol] if factor == 1 else int(factor) * found[symbol]
        return dim + int(offset) if offset else dim

    inputs = {node.name: node.meta.get("val") for node in program.graph.find_nodes(op="placeholder")}
    values = iter([inputs.get(name) for name in _input_names(program)])

    def sizes(_: Any) -> Any:
        value = next(values)
        if not isinstance(value, torch.Tensor):
            return None
        return {d: dimension(size) for d, size in enumerate(value.shape) if isinstance(size, torch.SymInt)} or None

    shapes = pytree.tree_map(sizes, given, is_leaf=lambda leaf: leaf is None)
    return shapes if found else None


_KEPT = ("stack_trace", "nn_module_stack", "source_fn_stack")


def _take_sources(graph: torch.fx.Graph, original: torch.fx.Graph) -> None:
    """Gives nodes the Python lines and modules of those that they are made of; conversions have those of the node
    behind them."""
    checks = aten._assert_tensor_metadata.default
    given = [node for node in original.nodes if node.op == "call_function" and node.target is not checks]
    place = 0
    for node in graph.nodes:
        if node.op == "call_function" and place < len(given):
            node.meta |= {key: given[place].meta[key] for key in _KEPT if key in given[place].meta}
            place += node.target is given[place].target


def to_bfloat16(value: Any) -> Any:
    """Floating-point tensors in bfloat16, everything else as it is."""
    return value.to(torch.bfloat16) if isinstance(value, torch.Tensor) and value.is_floating_point() else value


def _mutable(program: torch.export.ExportedProgram) -> frozenset[str]:
    """Names of the buffers that the program writes to, also by ops in place."""
    found = mutated_buffers(program)
    if any(_writes(node) for node in program.graph.nodes):
        found |= mutated_buffers(program.run_decompositions({}))
    return found


def _writes(node: torch.fx.Node) -> bool:
    if node.target is aten.batch_norm.default:
        return bool(node.args[5])  # training
    return isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable


def _input_names(program: torch.export.ExportedProgram) -> list[str]:
    """Of tensors and constants."""
    return [spec.arg.name for spec in program.graph_signature.input_specs if spec.kind is InputKind.USER_INPUT]


def _forward(program: torch.export.ExportedProgram, args: tuple, kwargs: dict[str, Any]) -> Any:
    """A method whose arguments have the names of the export, as the inputs of files have."""

    def forward(self: _Narrow, *args: Any, **kwargs: Any) -> Any:
        return self.run(*args, **kwargs)

    plain = all(not isinstance(arg, (tuple, list, dict)) for arg in args)
    names = _input_names(program) if plain else []
    positional = [*names[: len(args)], *(f"args_{i}" for i in range(len(names[: len(args)]), len(args)))]
    kinds: list[tuple[str, Any]] = [(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in ("self", *positional)]
    kinds += [(name, inspect.Parameter.KEYWORD_ONLY) for name in kwargs]
    forward.__signature__ = inspect.Signature([inspect.Parameter(*item) for item in kinds])  # type: ignore[attr-defined]
    return forward


class _Narrow(torch.nn.Module):
    def __init__(self, program: torch.export.ExportedProgram, states: Collection[str]) -> None:
        super().__init__()
        mutable = _mutable(program).union(states)
        module: Any = copy.deepcopy(program.module(check_guards=False))
        for parameter in module.parameters():
            parameter.data = to_bfloat16(parameter.data)
        for name, buffer in module.named_buffers():
            if name in mutable:
                buffer.data = to_bfloat16(buffer.data)
        self.__dict__["module"] = module  # not as a part: parameters keep their names
        for kept in ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"):
            self.__dict__[kept] = getattr(module, kept)
        self.in_spec, self.out_spec = program.call_spec.in_spec, program.call_spec.out_spec

    def run(self, *args: Any, **kwargs: Any) -> Any:
        names = self.in_spec.child(1).context  # in the order of the export
        leaves = pytree.tree_leaves((args, {name: kwargs[name] for name in names}), is_leaf=lambda x: x is None)
        return pytree.tree_unflatten(_Interpreter(self.__dict__["module"]).run(*leaves), self.out_spec)


class _Interpreter(torch.fx.Interpreter):
    def __init__(self, module: torch.fx.GraphModule) -> None:
        super().__init__(module, garbage_collect_values=False)

    def run(self, *leaves: Any) -> Any:  # type: ignore[override]
        return super().run(*leaves, enable_io_processing=False)

    def call_function(self, target: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        if target is aten._assert_tensor_metadata.default:
            return None
        tensors = [x for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
        if any(x.dtype is torch.bfloat16 for x in tensors):
            args, kwargs = pytree.tree_map(_met, (args, kwargs))
        try:
            return super().call_function(target, args, kwargs)
        except (RuntimeError, NotImplementedError) as error:  # an op without bfloat16, such as those on complex numbers
            reason = str(error).strip().splitlines()[0]
            raise ExportError(f'convert="bfloat16": {op_key(target)} cannot be converted: {reason}') from None


def _met(value: Any) -> Any:
    """An argument of an op that has a bfloat16 tensor among its arguments."""
    if isinstance(value, torch.Tensor) and value.dtype is torch.float32:
        return value.clamp(-MOST, MOST).to(torch.bfloat16) if value.numel() else value.to(torch.bfloat16)
    if value is torch.float32:
        return torch.bfloat16
    if isinstance(value, float) and MOST < abs(value) < float("inf"):
        return MOST if value > 0 else -MOST
    return value
