# SPDX-License-Identifier: BSD-3-Clause
"""Runs the code of a network and compares what it stores, call by call, with the values of the graph.

Everything that the program has not written, in DRAM and in the scratchpads, holds NaN before the run, so that a value
that depends on it differs.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from torch_atalla.isa.engine import Machine, Stats
from torch_atalla.isa.geometry import LANES
from torch_atalla.isa.profile import Profile, profile
from torch_atalla.loadable.errors import ExportError

from ...program.ir import BufferKind, Operand
from ...program.layouts import same_layout
from .build import CompiledNetwork
from .kernels.tiling import SCRATCH_ROWS
from .network import Network, element_bytes
from .noise import Bound, bounds, widen
from .place import Placed, place_network
from .section import call_sites

WIDER = 3  # how often bounds are widened: of many elements that rounding decides about, some meet no run that does
UNWRITTEN = 0xFF  # bytes that are NaN as BF16


@dataclass
class CheckedRun:
    """One run of the code: its outputs, what it stored on the way, and where its cycles went. The profile is that of
    one core; whole: the statistics of all cores that the code is for."""

    outputs: list[torch.Tensor]
    profile: Profile
    whole: Stats
    found: dict[str, torch.Tensor] = field(repr=False)  # values of the nodes, also those of mutable buffers in the end
    stray: str  # what is written where nothing may be, or ""


def check_network(
    compiled: CompiledNetwork,
    inputs: Sequence[torch.Tensor] | None = None,
    expected: Sequence[torch.Tensor] | None = None,
    *,
    seed: int = 0,
    timing: bool = False,
    chip: int | None = None,
) -> CheckedRun:
    """Runs the code once, and compares every stored value with what the graph computes.

    inputs: CPU tensors in the order of the ports; by default the program's example inputs, or random numbers from
    `seed`. expected: outputs of another engine for these inputs; by default those of the exported program on the CPU.
    timing: count cycles; without it, those of the profile are 0. chip: the number of the device whose chip counts them;
    by default a chip that the code needs. Raises ExportError, which names the first graph node
    whose value differs by more than rounding explains (noise.py has the bound).
    """
    network = compiled.network
    given = example_inputs(compiled, seed) if inputs is None else list(inputs)
    given_strides = expected is not None
    if expected is None:
        expected = reference_outputs(compiled, given)
    stored = _stored_nodes(compiled)
    returned: Any = compiled.graph.output_node().args[0]
    leaves, updates = compiled.captured.outputs, compiled.captured.updates
    results = [node.name for leaf, node in zip(leaves, returned[len(updates) :], strict=True) if leaf.is_tensor]
    changed = dict(zip(updates, (node.name for node in returned)))  # mutable buffer -> its new value
    values = dict(zip((port.name for port in network.inputs), given)) | compiled.constants
    values |= {name: state.tensor for name, state in compiled.captured.states.items()}
    wanted = {*stored, *results, *changed.values()}
    options = {"timing": timing, "chip": network.chip if chip is None else chip}
    run = _run(compiled, stored, changed, given, options)
    if run.stray:
        raise ExportError(f"the chip code writes outside the memory of its program: {run.stray}")
    problems, wrong = [""], [""]
    for found in ({}, run.found):  # by what the program computes from its inputs, or step by step from what it stored
        known = bounds(compiled.graph, values, wanted, found, seed)
        for attempt in range(1 + WIDER):
            problems, wrong = _differences(network, run, expected, results, known, given_strides, bool(found))
            if not problems and not wrong:
                run.whole = _check_division(compiled, given, run, options)
                return run
            if attempt < WIDER:
                widen(known, compiled.graph, values, found, seed + attempt)
    first = (problems or wrong)[0]
    more = f" ({len(problems)} nodes and {len(wrong)} outputs differ)" if problems else ""
    raise ExportError(f"the results of the chip code differ from the program's: {first}{more}")


def _check_division(
    compiled: CompiledNetwork, given: Sequence[torch.Tensor], alone: CheckedRun, options: Mapping[str, Any]
) -> Stats:
    """The statistics of all cores together. Raises ExportError unless they give what one gave."""
    cores = compiled.network.image.cores
    if cores == 1:
        return alone.profile.stats
    together = compiled.run(given, cores=cores, **options)
    for number, (found, expected) in enumerate(zip(together.outputs, alone.outputs)):
        if not torch.equal(*(x.reshape(-1).view(torch.uint8) for x in (found, expected))):
            raise ExportError(f"output {number} of the chip code differs on {cores} cores from what one core gives")
    return together.stats


def _differences(
    network: Network,
    run: CheckedRun,
    expected: Sequence[torch.Tensor],
    results: Sequence[str],
    known: Mapping[str, Bound],
    given_strides: bool,
    by_step: bool,
) -> tuple[list[str], list[str]]:
    """Of the stored values, and of the outputs. by_step: the bounds are those of each step, so that outputs may differ
    from `expected`: another engine that rounds elsewhere takes other decisions."""
    problems = []
    for name, value in run.found.items():
        text = _difference(value, known[name].exact, known[name]) if name in known else ""
        if text:
            problems.append(f"node {name}: {text}")
    wrong = []
    ports = zip(network.outputs, run.outputs, expected, results, strict=True)
    for number, (port, value, right, name) in enumerate(ports):
        if not given_strides and right.is_floating_point() and port.dtype.is_floating_point:
            right = right.to(port.dtype)  # of operands of two dtypes, a few losses give another one than their export
        if (tuple(right.shape), right.dtype) != (port.sizes, port.dtype):
            text = f"{port.dtype} of {list(port.sizes)}, expected {right.dtype} of {list(right.shape)}"
        elif given_strides and not same_layout(port.sizes, port.strides, tuple(right.stride())):
            text = f"strides {list(port.strides)}, expected {list(right.stride())}"
        else:
            text = _difference(value, right.cpu(), known[name])
            if text and (by_step or not given_strides):  # PyTorch may be imprecise, or one of several right answers
                text = _difference(value, known[name].exact, known[name])
        if text:
            wrong.append(f"output {number} ({port.name}): {text}")
    return problems, wrong


def example_inputs(compiled: CompiledNetwork, seed: int = 0) -> list[torch.Tensor]:
    """The program's own, repeated or cut where the network is for other sizes. Random numbers instead of floating-point
    ones that are missing or all the same."""
    generator = torch.Generator().manual_seed(seed)
    ports = compiled.network.inputs
    examples = compiled.exported.example_inputs
    leaves = [] if examples is None else torch.utils._pytree.tree_leaves(examples)
    tensors = [leaf.detach().cpu() for leaf in leaves if isinstance(leaf, torch.Tensor)]
    if len(tensors) != len(ports):
        tensors = [torch.zeros(port.sizes, dtype=port.dtype) for port in ports]
    result = []
    for port, tensor in zip(ports, tensors):
        if tuple(tensor.shape) != port.sizes:
            tensor = _resized(tensor, port.sizes, generator)
        if tensor.dtype.is_floating_point and tensor.numel() > 1 and bool((tensor == tensor.flatten()[0]).all()):
            tensor = torch.randn(port.sizes, generator=generator).to(port.dtype)
        if not same_layout(port.sizes, port.strides, tuple(tensor.stride())):  # which as_strided in the export expects
            tensor = torch.empty_strided(port.sizes, port.strides, dtype=tensor.dtype).copy_(tensor)
        result.append(tensor)
    return result


def _resized(tensor: torch.Tensor, sizes: Sequence[int], generator: torch.Generator) -> torch.Tensor:
    """Of other sizes: the elements again and again, floating-point ones changed by random factors."""
    if tensor.numel() == 0:
        return torch.zeros(tuple(sizes), dtype=tensor.dtype)
    for dim, size in enumerate(sizes):
        tensor = tensor.index_select(dim, torch.arange(size) % tensor.shape[dim])
    if not tensor.dtype.is_floating_point:
        return tensor
    return (tensor * torch.empty(tensor.shape).uniform_(0.5, 1.5, generator=generator)).to(tensor.dtype)


def reference_outputs(compiled: CompiledNetwork, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """What the exported program gives on the CPU; with sizes that depend on data, what the captured graph gives."""
    if compiled.captured.result_sizes:
        captured = compiled.captured
        tensors = dict(zip((port.name for port in compiled.network.inputs), inputs))
        tensors |= {name: constant.tensor for name, constant in (captured.constants | captured.states).items()}
        given = [tensors[node.name] for node in captured.graph.find_nodes(op="placeholder")]
        with torch.no_grad():
            return list(torch.fx.Interpreter(captured.graph_module).run(*given))[len(captured.updates) :]
    args, kwargs = call_arguments(compiled, inputs)
    with torch.no_grad():
        module = copy.deepcopy(compiled.exported.module(check_guards=False))  # whose mutable buffers change
        outputs = module(*args, **kwargs)
    return [x.detach() for x in torch.utils._pytree.tree_leaves(outputs) if isinstance(x, torch.Tensor)]


def call_arguments(compiled: CompiledNetwork, inputs: Sequence[torch.Tensor]) -> tuple[tuple, dict[str, Any]]:
    """args and kwargs of a call with these tensors."""
    tensors = iter(inputs)
    leaves = [next(tensors) if leaf.is_tensor else leaf.value for leaf in compiled.captured.inputs]
    return torch.utils._pytree.tree_unflatten(leaves, compiled.captured.in_spec)


def _stored_nodes(compiled: CompiledNetwork) -> dict[str, Operand]:
    """For each buffer that a call writes and something reads, the first node whose value it holds."""
    network, program = compiled.network, compiled.program
    computing = [inst for inst in program.instructions if any(0 not in operand.sizes for operand in inst.writes())]
    read = {operand.buffer for inst in computing for operand in inst.reads()}
    stored: dict[int, tuple[str, Operand]] = {}
    for node in compiled.graph.nodes:
        operand = program.values.get(node.name)
        if operand is None or node.op != "call_function" or not isinstance(node.meta.get("val"), torch.Tensor):
            continue
        if operand.dtype.is_complex:  # its parts are numbers of the program
            continue
        buffer = program.buffers[operand.buffer]
        written = operand.buffer in network.complete and 0 not in operand.sizes
        if written and (
            buffer.kind is BufferKind.OUTPUT or buffer.kind is BufferKind.TEMPORARY and buffer.index in read
        ):
            stored.setdefault(operand.buffer, (node.name, operand))
    return dict(stored.values())


def _run(
    compiled: CompiledNetwork,
    stored: dict[str, Operand],
    changed: dict[str, str],
    inputs: Sequence[torch.Tensor],
    options: Mapping[str, Any],
) -> CheckedRun:
    """stored: the operands of the nodes to read, each after the call that completes it. changed: mutable buffer -> the
    node of its new value."""
    network = compiled.network
    placed = place_network(network, inputs, fill=UNWRITTEN)
    machine = Machine(compiled.code, placed.memory, args=(placed.table,), dram_bytes=placed.dram_bytes, **options)
    unwritten = np.full((SCRATCH_ROWS, LANES), np.nan, np.float32)
    for sid in range(2):
        machine.write_scratchpad(sid, 0, unwritten)
    after: dict[int, list[str]] = {}
    for name, operand in stored.items():
        after.setdefault(network.complete[operand.buffer], []).append(name)
    read: dict[str, torch.Tensor] = {}

    def keep(finished: int) -> None:
        read.update({name: _read(compiled, placed, machine, stored[name]) for name in after.get(finished, ())})

    functions = network.image.functions
    calls = [(functions[site.function].address, site) for site in call_sites(compiled)]
    profiled = profile(machine, calls, keep)
    outputs = [placed.output(port, machine.dram) for port in network.outputs]
    found = {name: read[name] for name in stored if name in read}
    for state, node in changed.items():
        found[node] = placed.output(network.states[state][0], machine.dram)
    return CheckedRun(outputs, profiled, profiled.stats, found, _stray_writes(placed, machine))


def _stray_writes(placed: Placed, machine: Machine) -> str:
    right = np.zeros(placed.dram_bytes, np.uint8)
    for place, content in placed.memory.items():
        right[place : place + len(content)] = np.frombuffer(content, np.uint8)
    changed = machine.dram(0, placed.dram_bytes) != right
    for place, nbytes in placed.written:
        changed[place : place + nbytes] = False
    places = changed.nonzero()[0]
    if not len(places):
        return ""
    first = int(places[0])
    before = [(place, name) for name, place in placed.regions.items() if place <= first]
    place, name = max(before, default=(0, "DRAM"))
    return f"{len(places)} bytes, the first {first - place} bytes behind the beginning of {name}"


def _read(compiled: CompiledNetwork, placed: Placed, machine: Machine, operand: Operand) -> torch.Tensor:
    """A copy of an operand's elements as the program keeps them."""
    buffer = compiled.program.buffers[operand.buffer]
    size = element_bytes(operand.dtype)
    dtype = {8: torch.int64, 4: torch.int32}.get(size, torch.bfloat16)
    first, last = (end // operand.dtype.itemsize * size for end in operand.extent())
    name = f"{buffer.kind.value}{buffer.index}"
    if name in compiled.network.kept:
        rows = machine.scratchpad(0, compiled.network.kept[name], -(-last // (2 * LANES)))
        raw = torch.from_numpy(rows).flatten()[first // 2 : last // 2].to(dtype)
    else:
        raw = torch.from_numpy(machine.dram(placed.regions[name] + first, last - first)).view(dtype)
    value = torch.as_strided(raw, operand.sizes, operand.strides).clone()
    return value != 0 if operand.dtype is torch.bool else value


def _difference(found: torch.Tensor, right: torch.Tensor, bound: Bound) -> str:
    """How the values differ, or "". A result beyond the range of bfloat16 is an infinity."""
    tolerance = bound.tolerance()
    a, b = found.double(), right.double()
    if found.dtype.is_floating_point:  # an infinity is next to the greatest number
        most = torch.finfo(torch.bfloat16).max
        a, b = a.clamp(-most, most), right.to(torch.bfloat16).double().clamp(-most, most)
    apart = torch.where(a.isnan() | b.isnan(), a.isnan() != b.isnan(), (a - b).abs() > tolerance)
    # Where rounding moves a result this far, a product before it may have left the range, and infinities give NaNs.
    overflows = (tolerance > torch.finfo(torch.bfloat16).max ** 0.5) & (a.isnan() | b.isnan())
    worse = apart & (tolerance < torch.inf) & ~overflows
    count = int(worse.sum())
    if not count:
        return ""
    at = tuple(worse.nonzero()[0].tolist())
    text = f"{count} of {worse.numel()} elements differ, the first at {list(at)}: {a[at]:.6g}, expected {b[at]:.6g}"
    return f"{text} within {tolerance[at]:.3g}"


__all__ = ["call_arguments", "check_network", "example_inputs", "reference_outputs", "same_layout"]
