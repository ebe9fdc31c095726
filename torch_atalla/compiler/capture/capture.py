# SPDX-License-Identifier: BSD-3-Clause
"""The first stage: a module or an exported program becomes a functional ATen graph with its constants."""

from __future__ import annotations

import copy
import itertools
import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind, TensorArgument

from torch_atalla.driver.dtypes import CODES
from torch_atalla.driver.dtypes import name as dtype_name
from torch_atalla.loadable.errors import ExportError
from torch_atalla.loadable.leaves import Leaf

from ..program.layouts import same_layout
from ..program.size_expressions import check_dynamic, find_symbols
from ..program.sizes import Symbols
from ..program.small_sizes import guard_small_sizes
from .assertions import assert_on_tensors
from .bounded import RESULT_SIZES, bound_sizes
from .decompositions import decomposition_table, without_python_kernels
from .eager_strides import values_on_device
from .element_index import index_by_elements
from .float8_weights import is_float8_weight, store_bytes
from .known_numbers import stored_tensor, with_known_numbers
from .triton_kernels import launches_triton_kernel, lower_triton_kernels

_CONSTANT_KINDS = {InputKind.PARAMETER: "parameter", InputKind.BUFFER: "buffer", InputKind.CONSTANT_TENSOR: "constant"}


@dataclass
class Constant:
    """A tensor that does not depend on what the caller gives."""

    tensor: torch.Tensor
    kind: str  # "parameter", "buffer" or "constant"
    fqn: str = ""  # its name in the state dict
    made_of: frozenset[str] = frozenset()  # names of what a pass computed it from


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
    states: dict[str, Constant] = field(default_factory=dict)  # placeholder -> mutable buffer, with its first value
    updates: list[str] = field(default_factory=list)  # the graph's first results are new values of these states
    symbols: Symbols = field(default_factory=Symbols)
    names: frozenset[str] = frozenset()  # of the parameters and buffers that the program has
    results: list[torch.Tensor] = field(default_factory=list)  # the tensors among the outputs, as exported
    # (tensor among the outputs, dimension, number of a count) for sizes that depend on data: the counts are the last
    # outputs, beyond those of the module.
    result_sizes: tuple[tuple[int, int, int], ...] = ()

    @property
    def counts(self) -> int:
        """How many of the outputs are counts for result_sizes."""
        return len({count for _, _, count in self.result_sizes})

    @property
    def graph(self) -> torch.fx.Graph:
        return self.graph_module.graph

    def __str__(self) -> str:
        inputs = ", ".join(leaf.name for leaf in self.inputs)
        return f"inputs: {inputs}; {len(self.constants)} constants\n{self.graph}"


def export_module(
    program: torch.export.ExportedProgram | torch.nn.Module,
    args: tuple | None = None,
    kwargs: Mapping[str, Any] | None = None,
) -> torch.export.ExportedProgram:
    """An exported program as it is; a module exported, in eval mode or not as it stands, with example inputs."""
    if isinstance(program, torch.nn.Module):
        if args is None and kwargs is None:
            raise ExportError("a module needs example inputs: give args=(...), or an ExportedProgram")
        with torch.no_grad():
            program = _export(program, tuple(args or ()), dict(kwargs or {}))
    if not isinstance(program, torch.export.ExportedProgram):
        raise ExportError(f"expected an ExportedProgram or a Module, got {type(program).__name__}")
    return _without_devices(_without_conditions_on_bases(program))


def _export(module: torch.nn.Module, args: tuple, kwargs: dict[str, Any]) -> torch.export.ExportedProgram:
    try:
        return torch.export.export(module, args, kwargs)
    except RuntimeError as error:
        if not launches_triton_kernel(error):
            raise
        return torch.export.export(module, args, kwargs, strict=True)  # which sees launches of Triton kernels


def _without_conditions_on_bases(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Where an example input is a view, upstream also writes conditions on what it is a view of, which fail for an
    input that is none, and for those with which the program is taken apart."""
    conditions = program._guards_code
    kept = [text for text in conditions if "._base." not in text]
    if len(kept) == len(conditions):
        return program
    program = copy.copy(program)
    program._guards_code = kept
    return program


def _without_devices(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """In a program that move_to_device_pass moved, assertions name the device as the caller did, "atalla", and fail for
    values of "atalla:0", with which the program is taken apart. A file has one device."""

    def names_device(node: torch.fx.Node) -> bool:
        device: Any = node.kwargs.get("device")  # a string, after the pass
        return device is not None and torch.device(device).type == "atalla"

    op = torch.ops.aten._assert_tensor_metadata.default
    if not any(map(names_device, program.graph.find_nodes(op="call_function", target=op))):
        return program
    graph = torch.fx.Graph()
    graph.output(graph.graph_copy(program.graph, {}))
    graph.output_node().meta.update(program.graph.output_node().meta)
    for node in graph.find_nodes(op="call_function", target=op):
        node.kwargs = {name: value for name, value in node.kwargs.items() if name != "device"}
    changed = copy.copy(program)
    changed._graph_module = torch.fx.GraphModule(program.graph_module, graph)
    changed._graph_module.meta.update(program.graph_module.meta)
    return changed


def decompose(program: torch.export.ExportedProgram, states: Collection[str] = ()) -> torch.export.ExportedProgram:
    """Taken apart to the ops that lowering knows, without mutation. states: as `capture` takes them."""
    _check_dense(program)
    table = decomposition_table()
    try:
        with torch.no_grad(), without_python_kernels(), warnings.catch_warnings():
            # torch.export copies a LeafSpec in there, which torch's pytree deprecates.
            warnings.filterwarnings("ignore", ".*LeafSpec", FutureWarning)
            whole = with_known_numbers(program, states)
            decomposed = whole.run_decompositions(table, decompose_custom_triton_ops=True)
    except RuntimeError as error:
        text = str(error).strip().splitlines()
        raise ExportError(
            f"PyTorch cannot write the program without mutation: {text[0] if text else type(error).__name__}; expected "
            "a program that run_decompositions takes"
        ) from error
    lower_triton_kernels(decomposed.graph_module)
    _check_mutation(decomposed)
    _check_results(program, decomposed)
    return decomposed


def _check_dense(program: torch.export.ExportedProgram) -> None:
    for node in program.graph.nodes:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor) and value.layout != torch.strided:
            raise ExportError(f"{node.name} is a {value.layout} tensor; expected dense ones (x.to_dense())")
        if node.op == "placeholder" and isinstance(value, torch.Tensor) and not is_float8_weight(node):
            check_dtype(node)


def _returned(program: torch.export.ExportedProgram) -> Any:
    """What the graph returns to the caller: without new values of buffers."""
    return program.graph.output_node().args[0][-len(program.graph_signature.user_outputs) or None :]


def _check_results(program: torch.export.ExportedProgram, decomposed: torch.export.ExportedProgram) -> None:
    """Taking a program apart must not change the dtype or rank of a result. (The export does not know those of nested
    graphs, as autocast makes them.)"""
    for number, pair in enumerate(zip(_returned(program), _returned(decomposed), strict=True)):
        exported, found = (node.meta.get("val") if isinstance(node, torch.fx.Node) else None for node in pair)
        if not isinstance(exported, torch.Tensor) or not isinstance(found, torch.Tensor):
            continue
        if not isinstance(getattr(pair[0], "target", None), torch._ops.OpOverload):
            continue
        if (exported.dtype, exported.ndim) != (found.dtype, found.ndim):
            raise ExportError(
                f"result {number} was exported as {exported.dtype} of {exported.ndim} dimensions, and taking the "
                f"program apart made it {found.dtype} of {found.ndim}; please report this"
            )


def mutated_buffers(decomposed: torch.export.ExportedProgram) -> frozenset[str]:
    """Names of the buffers that the program writes to."""
    return frozenset(
        spec.target
        for spec in decomposed.graph_signature.output_specs
        if spec.kind is OutputKind.BUFFER_MUTATION and spec.target is not None
    )


def capture(
    program: torch.export.ExportedProgram | torch.nn.Module,
    args: tuple | None = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    decomposed: torch.export.ExportedProgram | None = None,
    states: Collection[str] = (),
    names: Mapping[str, str] | None = None,
) -> Captured:
    """Decomposes to the ops that lowering knows.

    A module is exported first, with `args` and `kwargs` as example inputs. decomposed: what `decompose` gave for the
    program, if it was called already. states: further buffers that keep their value from call to call, since another
    method writes them. names: of the file for parameters and buffers that are not called so there. Raises ExportError
    for what the format has no room for: mutated inputs, sizes that no input determines.
    """
    program = export_module(program, args, kwargs)
    if decomposed is None:
        decomposed = decompose(program, states)
    index_by_elements(decomposed.graph)
    assert_on_tensors(decomposed.graph)
    bound_sizes(decomposed)
    name_the_host(decomposed.graph)
    names = names or {}
    constants = _constants(decomposed, names)
    store_bytes(decomposed.graph, constants)
    mutable = {names.get(name, name) for name in mutated_buffers(decomposed) | frozenset(states)}
    kept = {name: item for name, item in constants.items() if item.kind == "buffer" and item.fqn in mutable}
    return Captured(
        graph_module=decomposed.graph_module,
        constants={name: item for name, item in constants.items() if name not in kept},
        inputs=_inputs(decomposed),
        outputs=[
            _leaf(spec.arg)
            for spec in decomposed.graph_signature.output_specs
            if spec.kind is not OutputKind.BUFFER_MUTATION
        ],
        in_spec=decomposed.call_spec.in_spec,
        out_spec=decomposed.call_spec.out_spec,
        model=model_name(program),
        states=kept,
        updates=[names.get(name, name) for name in _updates(decomposed)],
        symbols=_symbols(decomposed, program),
        names=frozenset(item.fqn for item in constants.values() if item.kind != "constant"),
        results=_results(program, decomposed),
        result_sizes=decomposed.graph_module.meta.get(RESULT_SIZES, ()),
    )


def _symbols(program: torch.export.ExportedProgram, exported: torch.export.ExportedProgram) -> Symbols:
    """`exported`: the program before it was taken apart."""
    inputs, before = _input_tensors(program), _input_tensors(exported)
    if all(isinstance(number, int) for _, value in before for number in (*value.shape, *value.stride())):
        return Symbols()
    check_dynamic(exported, before, inputs)
    symbols = find_symbols(program.range_constraints, inputs)
    guard_small_sizes(exported.graph_module, symbols)
    return symbols


def _updates(program: torch.export.ExportedProgram) -> list[str]:
    specs = program.graph_signature.output_specs
    updates = [spec.target for spec in specs if spec.kind is OutputKind.BUFFER_MUTATION]
    assert all(spec.kind is OutputKind.BUFFER_MUTATION for spec in specs[: len(updates)])  # upstream puts them first
    return [str(target) for target in updates]


def _results(exported: torch.export.ExportedProgram, decomposed: torch.export.ExportedProgram) -> list[torch.Tensor]:
    """What describes the results. Where an op became others, strides may have changed; those of the export count, or
    else those of the device."""
    before = _returned(exported)
    specs = decomposed.graph_signature.output_specs
    returned: Any = decomposed.graph.output_node().args[0][len(decomposed.graph_signature.buffers_to_mutate) :]
    kept = [spec for spec in specs if spec.kind is not OutputKind.BUFFER_MUTATION]
    on_device = values_on_device(exported.graph_module)
    results: list[Any] = []
    for spec, first, last in itertools.zip_longest(kept, before, returned):  # counts come last
        if isinstance(spec.arg, TensorArgument):
            wanted: Any = first.meta.get("val") if first is not None else None
            value, there = last.meta["val"], on_device.get(first)
            fixed = isinstance(wanted, torch.Tensor) and all(type(n) is int for n in (*wanted.shape, *wanted.stride()))
            if not fixed or wanted.shape != value.shape:
                wanted = value
            elif there is not None and not same_layout(tuple(value.shape), wanted.stride(), there.stride()):
                wanted = there
            results.append(wanted)
    return results


def _input_tensors(program: torch.export.ExportedProgram) -> list[tuple[str, torch.Tensor]]:
    given = {spec.arg.name for spec in program.graph_signature.input_specs if spec.kind is InputKind.USER_INPUT}
    return [
        (node.name, node.meta["val"])
        for node in program.graph.find_nodes(op="placeholder")
        if node.name in given and isinstance(node.meta.get("val"), torch.Tensor)
    ]


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


def _constants(program: torch.export.ExportedProgram, names: Mapping[str, str]) -> dict[str, Constant]:
    """On the CPU, where the stages work. Tensors that share memory on the device still do."""
    constants = {}
    moved: dict[int, torch.UntypedStorage] = {}
    for spec in program.graph_signature.input_specs:
        if spec.kind in _CONSTANT_KINDS:
            tensor = on_host(stored_tensor(program, spec.target).detach(), moved)
            constants[spec.arg.name] = Constant(tensor, _CONSTANT_KINDS[spec.kind], names.get(spec.target, spec.target))
    return constants


def on_host(tensor: torch.Tensor, moved: dict[int, torch.UntypedStorage]) -> torch.Tensor:
    """The tensor in the CPU's memory. moved: storages that were copied before, by their addresses."""
    if tensor.device.type == "cpu":
        return tensor
    storage = tensor.untyped_storage()
    if storage.data_ptr() not in moved:
        moved[storage.data_ptr()] = (
            torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage).cpu().untyped_storage()
        )
    host = torch.empty(0, dtype=tensor.dtype)
    return host.set_(moved[storage.data_ptr()], tensor.storage_offset(), tensor.size(), tensor.stride())


def name_the_host(graph: torch.fx.Graph) -> None:
    """Factories and copies that name a device name the CPU: what is folded is computed there, and a launch runs where
    the program is loaded."""
    host = torch.device("cpu")
    for node in graph.nodes:
        if isinstance(node.kwargs.get("device"), torch.device):
            node.update_kwarg("device", host)
        if any(isinstance(arg, torch.device) for arg in node.args):
            node.args = tuple(host if isinstance(arg, torch.device) else arg for arg in node.args)


def _check_mutation(program: torch.export.ExportedProgram) -> None:
    for spec in program.graph_signature.output_specs:
        if spec.kind not in (OutputKind.USER_OUTPUT, OutputKind.BUFFER_MUTATION):
            if spec.kind is OutputKind.TOKEN:
                raise ExportError("the program calls an op with side effects; expected one that only returns values")
            what = spec.kind.name.lower().replace("_", " ")
            raise ExportError(
                f"the program writes to {spec.target or spec.arg.name!r} ({what}); expected a program that writes to "
                "nothing but its buffers"
            )


def model_name(program: torch.export.ExportedProgram) -> str:
    for node in program.graph.nodes:
        for path, kind in (node.meta.get("nn_module_stack") or {}).values():
            if path == "":
                return kind.rpartition(".")[2] if isinstance(kind, str) else kind.__name__
    return ""


def check_dtype(node: torch.fx.Node) -> None:
    """Raises ExportError for a tensor whose dtype the chip does not store."""
    dtype = node.meta["val"].dtype
    if dtype not in CODES:
        known = ", ".join(map(dtype_name, CODES))
        raise ExportError(f"{node.name} has the dtype {dtype_name(dtype)}; expected one of {known}")
