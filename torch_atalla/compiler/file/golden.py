# SPDX-License-Identifier: BSD-3-Clause
"""Golden outputs: what PyTorch gives on the CPU for inputs that a seed determines, sampled, with a tolerance.

A file carries them, so that `verify` can tell at any time and on any machine that it computes what the model did. They
come from the exported program, before any pass of the compiler, so that replaying them checks all of it.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice, product
from typing import Any

import torch
from torch.export.graph_signature import InputKind
from torch.utils import _pytree as pytree

from torch_atalla.driver import runtime
from torch_atalla.driver.dtypes import CODES
from torch_atalla.loadable.errors import ExportError
from torch_atalla.loadable.file.format import MOST_SAMPLES
from torch_atalla.loadable.leaves import Leaf

from ..capture.stable_order import STABLE
from ..program.assignment import Assignment
from ..program.call_arguments import arguments_of
from ..program.layouts import layout_of
from ..program.sizes import Symbols, lowering_with
from ..targets.chip.noise import rounds
from ..targets.functional.pipeline import Compiled
from .contents import GoldenRecord

RTOL = {torch.float64: 1e-6, torch.float16: 1e-2, torch.bfloat16: 5e-2}
RTOL_OTHERS = 5e-4
RTOL_WEIGHTS = {"bfloat16": 5e-2, "int8": 1e-1}

_RUNS = 16  # of the reference, to measure how far results depend on last bits
_MOST_NOISE = 0.05  # of the largest value

# On the CPU these count or find places in the tensor's own type, where 256 + 1 may be 256.
_COARSE = {
    *(torch.ops.aten.histc.default, torch.ops.aten.grid_sampler.default),
    *(torch.ops.aten.grid_sampler_2d.default, torch.ops.aten.grid_sampler_3d.default),
}

_RANDOM = torch.Tag.nondeterministic_seeded


def make_golden(
    program: torch.export.ExportedProgram,
    compiled: Compiled,
    method: int,
    *,
    seed: int = 0,
    weights: str | None = None,
    measured: bool = False,
    sizes: Sequence[int] | None = None,
    stable: bool = False,
) -> GoldenRecord | None:
    """None for a program whose results are random or have sizes that depend on data, or that was exported for a device:
    its graph names it; and, with a warning, for one that refuses the inputs. `weights`: the narrow type in which the
    compiler stored them. `measured`: the tolerance covers what last bits of the numbers change; None, with a warning,
    where they change everything.
    sizes: the values of the program's symbols, otherwise small ones. stable: sorting and selecting keep the order of
    equal elements, as Atalla code does."""
    if any(map(_is_random, program.graph.nodes)) or _devices(program) - {"cpu"}:
        return None
    if compiled.captured.result_sizes:
        return None
    ports = compiled.program.inputs
    bounds = _bounds(program)
    if len(bounds) != len(ports) or any(port.operand.dtype not in CODES for port in ports):
        return None
    if any(result.name == "fuse_attention" and result.nodes for result in compiled.passes):
        # A query that sees no key is NaN in the unfused form and 0 in the fused one: masks hide nothing.
        bounds = [(1.0, 1.0) if port.operand.dtype is torch.bool else pair for port, pair in zip(ports, bounds)]
    symbols = compiled.captured.symbols
    values = _sizes(symbols) if sizes is None else list(sizes)
    sizing = Assignment(symbols, values)
    exported = {node.name: node.meta["val"] for node in compiled.captured.graph.find_nodes(op="placeholder")}
    tensors = []
    for k, (port, (low, high)) in enumerate(zip(ports, bounds)):
        shape, strides = (list(map(sizing.number, some)) for some in (port.operand.sizes, port.operand.strides))
        tensor = seeded_input(seed, k, port.operand.dtype, shape, low, high)
        with lowering_with(symbols):
            as_exported = layout_of(exported[port.name])[1] == port.operand.strides
        tensors.append(_laid_out(tensor, strides if as_exported else None))
    leaves = compiled.captured.inputs
    outputs: list[torch.Tensor]
    try:
        outputs = _reference(program, leaves, tensors, stable)
        others = [_jittered_reference(program, leaves, tensors, stable, k) for k in range(_RUNS if measured else 0)]
    except (RuntimeError, IndexError, ValueError) as error:  # as offsets that must begin with 0, or rise
        reason = str(error).strip().split("\n")[0]
        warnings.warn(f"the file gets no golden outputs: PyTorch refuses seeded inputs ({reason})", stacklevel=4)
        return None
    samples = [number for output in outputs for number in _sample(output)]
    dtypes = _dtypes(program) | {output.dtype for output in outputs}
    rtol = max((RTOL.get(dtype, RTOL_OTHERS) for dtype in dtypes if dtype.is_floating_point), default=RTOL_OTHERS)
    if torch.float32 not in dtypes and dtypes & {torch.float64} and not dtypes & {torch.float16, torch.bfloat16}:
        rtol = RTOL[torch.float64]
    largest = max((abs(number) for number in samples if math.isfinite(number)), default=0.0)
    flat = tuple(float(number) for pair in bounds for number in pair)
    rtol = max(rtol, RTOL_WEIGHTS.get(weights or "", 0.0))
    noise = max((_difference(outputs, other) for other in others), default=0.0)
    if noise > _MOST_NOISE * largest and noise > 0:
        warnings.warn(
            f"the file gets no golden outputs: last bits of the numbers change results by {noise:.3g}", stacklevel=4
        )
        return None
    return GoldenRecord(method, seed, flat, tuple(values), tuple(samples), rtol, max(rtol * largest, 8 * noise))


def _jittered_reference(
    program: torch.export.ExportedProgram, leaves: list[Leaf], tensors: list[torch.Tensor], stable: bool, seed: int
) -> list[torch.Tensor]:
    """With other last bits of the inputs and of what ops compute."""
    generator = torch.Generator().manual_seed(seed)

    def jittered(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or not value.is_floating_point():
            return value
        up = torch.rand(value.shape, generator=generator) > 0.5
        factor = 1 + torch.finfo(value.dtype).eps * (up.to(torch.float64) * 2 - 1)
        return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype).copy_(value * factor)

    return _reference(program, leaves, [jittered(tensor) for tensor in tensors], stable, jittered)


def _difference(outputs: list[torch.Tensor], others: list[torch.Tensor]) -> float:
    """The largest one; infinite where one of two numbers is no finite one, or where integers or truth values differ,
    for which there is no tolerance."""
    found = 0.0
    for output, other in zip(outputs, others):
        exact = not (output.is_floating_point() or output.is_complex())
        for a, b in zip(_sample(output), _sample(other)):
            if a != b and not (a != a and b != b):
                found = max(found, math.inf if exact or not math.isfinite(a - b) else abs(a - b))
    return found


def _is_random(node: torch.fx.Node) -> bool:
    if _RANDOM not in getattr(node.target, "tags", ()):
        return False
    attention = node.target is torch.ops.aten.scaled_dot_product_attention.default
    return not (attention and arguments_of(node)["dropout_p"] == 0.0)


def seeded_input(
    seed: int, number: int, dtype: torch.dtype, sizes: Sequence[int], low: float, high: float
) -> torch.Tensor:
    """The elements of input `number` of a golden, as the driver makes them, on the CPU."""
    tensor = torch.empty(tuple(sizes), dtype=dtype)
    runtime.golden_input(seed, number, CODES[dtype], low, high, tensor.numel(), tensor.data_ptr())
    return tensor


def _laid_out(tensor: torch.Tensor, strides: list[int] | None) -> torch.Tensor:
    """With the strides of the export, which decide about what is a view. None: elements overlap, so that no two
    dimensions can become one, as with gaps behind every dimension."""
    if strides is None:
        wide = torch.empty([size + 1 for size in tensor.shape], dtype=tensor.dtype)
        return wide[tuple(slice(size) for size in tensor.shape)].copy_(tensor)
    return torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype).copy_(tensor)


def _sizes(symbols: Symbols) -> list[int]:
    """Neither the smallest nor the planned ones, where the conditions of the program leave a choice."""
    planned = [symbol.value for symbol in symbols.symbols]
    choices = []
    for symbol in symbols.symbols:
        between = min(symbol.min + 2, (symbol.min + symbol.max) // 2)
        choices.append((between, *range(symbol.min, min(symbol.min + 8, symbol.max) + 1)))
    for values in islice(product(*choices), 1000):
        if symbols.allow(values):
            return list(values)
    return planned


def _bounds(program: torch.export.ExportedProgram) -> list[tuple[float, float]]:
    """The range of each tensor of the example inputs, which is the one that the model is made for."""
    wanted = [spec for spec in program.graph_signature.input_specs if spec.kind is InputKind.USER_INPUT]
    if program.example_inputs is None:
        return []
    leaves = pytree.tree_leaves(program.example_inputs, is_leaf=lambda leaf: leaf is None)
    if len(leaves) != len(wanted):
        return []
    return [_range(leaf) for leaf in leaves if isinstance(leaf, torch.Tensor)]


def _range(tensor: torch.Tensor) -> tuple[float, float]:
    values = tensor.detach().cpu()
    values = torch.view_as_real(values) if values.is_complex() else values
    values = values[torch.isfinite(values)] if values.is_floating_point() else values
    if values.numel() == 0:
        return (0.0, 1.0)
    low, high = float(values.min()), float(values.max())
    return (low, high) if abs(low) < 2**52 and abs(high) < 2**52 else (0.0, 1.0)


def _reference(
    program: torch.export.ExportedProgram,
    leaves: list[Leaf],
    tensors: list[torch.Tensor],
    stable: bool,
    changed: Callable[[Any], Any] | None = None,
) -> list[torch.Tensor]:
    """The tensors among the results, on copies of the parameters and buffers on the CPU. changed: of what an op
    computes."""
    state = {name: tensor.detach().cpu().clone() for name, tensor in _stored(program).items()}
    given = iter(tensors)
    user = [next(given) if leaf.is_tensor else leaf.value for leaf in leaves]
    args: list[Any] = []
    for spec in program.graph_signature.input_specs:
        args.append(user.pop(0) if spec.kind is InputKind.USER_INPUT else state[str(spec.target)])
    module = program.graph_module
    with torch.no_grad(), _deterministic():
        results = _Checked(module, stable, changed).run(*args)
    mutations = len(program.graph_signature.output_specs) - len(program.graph_signature.user_outputs)
    return [result for result in results[mutations:] if isinstance(result, torch.Tensor)]


class _Checked(torch.fx.Interpreter):
    """PyTorch on the CPU. Offsets of groups that end elsewhere than the rows or columns they divide, which the CPU
    passes over and the chip refuses, are an error."""

    def __init__(self, module: torch.fx.GraphModule, stable: bool, changed: Callable[[Any], Any] | None) -> None:
        super().__init__(module)
        self.stable, self.changed = stable, changed

    def run_node(self, n: torch.fx.Node) -> Any:
        result = super().run_node(n)
        return pytree.tree_map(self.changed, result) if self.changed is not None and rounds(n) else result

    def call_function(self, target: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
        if self.stable and target in STABLE:
            return STABLE[target](*args, **kwargs)
        if target is torch.ops.aten._grouped_mm.default:
            left, right, *rest = args
            offsets = rest[0] if rest else kwargs.get("offs")
            extent = left.shape[-2] if right.ndim == 3 else right.shape[-1] if left.ndim == 3 else left.shape[-1]
            if offsets is not None and offsets.numel() and int(offsets[-1]) != extent:
                raise ValueError(f"the groups end at {int(offsets[-1])} of {extent}")
        if target in _COARSE and args[0].dtype in (torch.float16, torch.bfloat16):
            wide = [x.float() if isinstance(x, torch.Tensor) else x for x in args]
            return target(*wide, **kwargs).to(args[0].dtype)
        return super().call_function(target, args, kwargs)


@contextmanager
def _deterministic() -> Iterator[None]:
    """Random positions may repeat, and then the last write stays on the chip; on the CPU only in this mode."""
    enabled, warns = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.use_deterministic_algorithms(True, warn_only=True)
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(enabled, warn_only=warns)


def _devices(program: torch.export.ExportedProgram) -> set[str]:
    values = [node.meta.get("val") for node in program.graph.nodes]
    tensors = [value for value in values if isinstance(value, torch.Tensor)] + list(_stored(program).values())
    return {tensor.device.type for tensor in tensors} - {"meta"}


def _stored(program: torch.export.ExportedProgram) -> dict[str, torch.Tensor]:
    tensors = {**program.constants, **program.state_dict}
    return {name: tensor for name, tensor in tensors.items() if isinstance(tensor, torch.Tensor)}


def _dtypes(program: torch.export.ExportedProgram) -> set[torch.dtype]:
    values = (node.meta.get("val") for node in program.graph.nodes)
    return {value.dtype for value in values if isinstance(value, torch.Tensor)}


def _sample(output: torch.Tensor) -> list[float]:
    flat = output.detach().contiguous().reshape(-1)
    count = min(flat.numel(), MOST_SAMPLES)
    picked = flat[torch.tensor([k * flat.numel() // count for k in range(count)], dtype=torch.int64)]
    picked = torch.view_as_real(picked).reshape(-1) if picked.is_complex() else picked
    if picked.dtype == torch.int64 and count and int(picked.abs().max()) > 2**53:
        raise ExportError("golden outputs beyond 2^53 have no exact form; expected smaller integers, or golden=False")
    return [float(number) for number in picked]
