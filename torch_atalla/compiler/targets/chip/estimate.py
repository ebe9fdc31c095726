# SPDX-License-Identifier: BSD-3-Clause
"""The cycles that the timing model gives for the launches of a network's code, with what they join and what they keep.

The functional engine makes launches of its own of the same graph: it joins others, and keeps others in scratchpads.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from math import prod

import torch

from torch_atalla.isa.geometry import LANES
from torch_atalla.isa.table import PACKET_BYTES

from ...program import kernels
from ...program.ir import AnyOperand, Immediate, Instruction, Launch, Operand
from ...program.vector_program import step_table
from ...schedule.chip_model import ChipModel
from ...schedule.work import Work, measure
from .divide import Division, divide
from .fusion import FUSED_KERNELS, STEPS, Fused
from .image import ALL_CORES
from .network import Network
from .select.weights import tiles_beside

WAITS_FOR_ALL = 255  # of atalla_tile_layout
GELU_KERNEL = "pointwise.gelu_tanh"
DRIVER_BYTES = 1152  # of the code that takes the scratchpads and walks the table of calls
LEAST_GAIN = 0.95  # of one core's cycles: on several, temporaries leave the scratchpads, and barriers come in between
_COUNTS = (  # of atalla_launch_work
    *("vector_ops", "exp_ops", "array_rows", "weight_rows", "packets"),
    *("tiles", "beats", "bytes_read", "bytes_written"),
)


def estimates(network: Network, chip: ChipModel, ran: Mapping[str, Sequence[int]] | None = None) -> list[int | None]:
    """Of each of `network.launches`; None where the device library tells no work. ran: of each function, addresses of
    the packets that run, for a chip with an instruction cache; none: all do."""
    kept = {buffer for buffer, region in network.regions.items() if region in network.kept}
    return [
        _cycles(x.launch, x.division, chip, network.constant_buffers, kept, code)
        for x, code in zip(network.launches, _fetched(network, chip, ran or {}), strict=True)
    ]


def _fetched(network: Network, chip: ChipModel, ran: Mapping[str, Sequence[int]]) -> list[int]:
    """Bytes of code that the first core fetches for each launch: lines that its cache does not hold any more."""
    image, cache = network.image, chip.instruction_cache
    if not cache.bytes:
        return [0] * len(network.launches)
    address, lines = DRIVER_BYTES, dict[str, list[int]]()
    for name, function in image.functions.items():
        end = address + PACKET_BYTES * len(function.packets)
        packets = ran.get(name, range(address, end, PACKET_BYTES))
        lines[name] = sorted({(at + byte) // cache.line_bytes for at in packets for byte in (0, PACKET_BYTES - 1)})
        address = end
    held: list[list[int]] = [[] for _ in range(cache.bytes // (cache.line_bytes * cache.ways))]  # the latest one last
    ends, found = [launch.first_call for launch in network.launches[1:]] + [len(image.calls)], list[int]()
    for launch, end in zip(network.launches, ends, strict=True):
        names = [call.function for call in image.calls[launch.first_call : end] if call.core in (0, ALL_CORES)]
        missing = sum(_misses(held[line % len(held)], line, cache.ways) for name in names for line in lines[name])
        if all(len(lines[name]) * cache.line_bytes <= cache.bytes for name in names):
            missing = min(missing, cache.bytes // cache.line_bytes)  # only a larger function pushes itself out
        found.append(missing * cache.line_bytes + (0 if found else DRIVER_BYTES))
    return found


def _misses(held: list[int], line: int, ways: int) -> bool:
    """Whether a set lacks a line, which it has afterwards."""
    missing = line not in held
    if not missing:
        held.remove(line)
    held.append(line)
    del held[:-ways]
    return missing


def worthwhile(inst: Instruction, chip: ChipModel, constants: Collection[int] = ()) -> Division:
    """The division that needs the fewest cycles, if it saves some; all cores where the device library tells no work.
    constants: buffers."""
    choices = [divide(inst, cores) for cores in range(1, chip.program_cores + 1)]
    cycles = [_cycles(inst, choice, chip, constants, ()) for choice in choices]
    known = [(count, i) for i, count in enumerate(cycles) if count is not None]
    if not known or cycles[0] is None:
        return choices[-1]
    least, best = min(known)
    return choices[best] if least < LEAST_GAIN * cycles[0] else choices[0]


def _cycles(
    inst: Instruction,
    division: Division,
    chip: ChipModel,
    constants: Collection[int],
    kept: Collection[int],
    code: int | None = None,
) -> int | None:
    """constants, kept: buffers, of which the latter lie in a scratchpad. code: bytes that are fetched, if known."""
    if not isinstance(inst, Launch):
        return None
    parts = [part for part in division.parts if isinstance(part, Launch)]
    found = [_part_cycles(inst, part, division, chip, constants, kept, code) for part in parts]
    return None if None in found else max(cycles for cycles in found if cycles is not None)


def _part_cycles(
    whole: Launch,
    part: Launch,
    division: Division,
    chip: ChipModel,
    constants: Collection[int],
    kept: Collection[int],
    code: int | None,
) -> int | None:
    """If each of the cores has a part like this one."""
    total, cores = 0, len(division.parts)
    for launch in _in_pixel_order(packed(_as_kernel(part, whole), constants)):
        work = measure(launch, chip.geometry)
        if work is None:
            return None
        operands = (*launch.outputs, *launch.inputs)
        work = _beside(_of_each_head(work, launch), launch, chip, constants)
        resident = sum(1 << k for k, x in enumerate(operands) if isinstance(x, Operand) and x.buffer in kept)
        work = _of_all(work, cores, division.shared)
        if code is not None:
            work.raw.code_bytes, code = code, 0  # all of it with the first launch
        total += chip.cycles(work, resident, cores)
    return total


def _of_all(work: Work, cores: int, shared: int) -> Work:
    """The work of as many cores, each of which has this one."""
    if cores == 1:
        return work
    raw = type(work.raw).from_buffer_copy(work.raw)
    for name in _COUNTS:
        setattr(raw, name, cores * getattr(work.raw, name))
    for k in range(len(work.operand_bytes)):
        if not shared >> k & 1:
            raw.operand_bytes[k] *= cores
        else:
            raw.bytes_read -= (cores - 1) * raw.operand_bytes[k]
    raw.parts, raw.shared = cores, shared
    return replace(work, raw=raw)


def _of_each_head(work: Work, launch: Launch) -> Work:
    """With the mask of an attention, which the code loads again for each head, a tile at a time."""
    mask = launch.inputs[3] if "attention" in launch.contract.traits and len(launch.inputs) > 3 else None
    if not isinstance(mask, Operand):
        return work
    place, heads = len(launch.outputs) + 3, prod(mask.sizes[:2])
    stored = prod(size for size, stride in zip(mask.sizes[:2], mask.strides[:2]) if stride != 0)
    raw = type(work.raw).from_buffer_copy(work.raw)
    layout, more = raw.layout[place], work.operand_bytes[place] * (heads // stored - 1)
    layout.waits = WAITS_FOR_ALL
    raw.operand_bytes[place] += more
    raw.bytes_read += more
    raw.beats += raw.beats * more // max(1, work.bytes_read + work.bytes_written)
    raw.tiles += raw.tiles * more // max(1, work.bytes_read + work.bytes_written)
    return replace(work, raw=raw, operand_bytes=tuple(raw.operand_bytes), bytes_read=raw.bytes_read)


def _beside(work: Work, launch: Launch, chip: ChipModel, constants: Collection[int]) -> Work:
    """With the tiles of constant weights side by side, if they are."""
    place = len(launch.outputs) + 1
    weight = launch.inputs[1] if len(launch.inputs) > 1 else None
    if not {"product", "convolution"} & set(launch.contract.traits) or not isinstance(weight, Operand):
        return work
    if "convolution" in launch.contract.traits and weight.sizes[1] == 1:  # depthwise ones have no tiles
        return work
    layout = work.raw.layout[place]
    tile = layout.row_bytes * layout.rows
    if weight.buffer not in constants or layout.pitch != layout.row_bytes or tile == 0:
        return work
    raw = type(work.raw).from_buffer_copy(work.raw)
    raw.layout[place].pitch *= tiles_beside(-(-work.operand_bytes[place] // tile), chip)
    return replace(work, raw=raw)


def packed(launch: Launch, constants: Collection[int]) -> Launch:
    """With the weights of a product as they lie in the file, its depth innermost."""
    weight = launch.inputs[1] if len(launch.inputs) > 1 else None
    if "product" not in launch.contract.traits or not isinstance(weight, Operand) or weight.buffer not in constants:
        return launch
    *outer, depth, width = weight.sizes
    strides = (*[0 if size == 1 else depth * width for size in outer], 1, depth)
    inputs = (launch.inputs[0], replace(weight, strides=strides), *launch.inputs[2:])
    return replace(launch, inputs=inputs)


def _as_kernel(part: Launch, whole: Launch) -> Launch:
    """The launch of a kernel of the device library that does the same as a part of a launch."""
    if not isinstance(whole, Fused):
        return part
    assert isinstance(part, Fused)
    pointwise = part.kernel == STEPS
    if pointwise and len(whole.parts) == 1 and part is whole:
        return whole.parts[0]
    inputs: list[AnyOperand] = list(part.inputs)
    if not pointwise:
        inputs += [None] * (len(kernels.contract(FUSED_KERNELS[part.kernel]).inputs) - len(inputs))
    program = Immediate(0, part.compute_dtype)  # it costs nothing
    inputs += [x for x in (part.residual, program) if x is not None]
    compute = torch.float32 if part.kernel == "convolution" else part.compute_dtype  # it has no other form
    plain = Launch(FUSED_KERNELS[part.kernel], part.outputs, tuple(inputs), compute, node=part.node)
    known = {} if pointwise else part.contract.parameters
    given = {name: part.parameter(name) for name in plain.contract.parameters if name in known}
    after = whole if pointwise else whole.parts[1]
    vector_ops, exp_ops = _operations(after) if isinstance(after, Fused) else (0, 0)
    return plain.with_parameters(**given, vector_ops=vector_ops, exp_ops=exp_ops)


def _operations(fused: Fused) -> tuple[int, int]:
    """Vector and exp instructions for 32 elements."""
    table = step_table()
    names = [part.kernel for part in fused.parts]
    if len(fused.steps) < len(names):  # a formula that was written out became one step
        names = [GELU_KERNEL if step[0] == "gelu" else f"pointwise.{step[0]}" for step in fused.steps]
    kinds = [table[name] for name in names if name in table]
    return sum(kind.vector_ops for kind in kinds), sum(kind.exp_ops for kind in kinds)


def _in_pixel_order(launch: Launch) -> list[Launch]:
    """Before a convolution of few channels that are not innermost, the copy that makes them so and pads the image. The
    copy has room behind it for the last tile, which the device library knows by the distance of two images."""
    image = launch.inputs[0]
    if "convolution" not in launch.contract.traits or not isinstance(image, Operand):
        return [launch]
    batch, channels, *lines = image.sizes
    if image.strides[1] == 1 or channels % LANES == 0:
        return [launch]
    padding = launch.parameter("padding")
    if channels == 1 and not any(padding) and launch.reads()[1].sizes[-1] % LANES == 0:  # read where it is
        ordered = replace(image, strides=(image.strides[0], 1, *image.strides[2:]))
        return [replace(launch, inputs=(ordered, *launch.inputs[1:]))]
    padded = tuple(size + 2 * max(0, p) for size, p in zip(lines, padding))
    ordered = replace(image, sizes=image.sizes, strides=_pixel_strides(channels, lines))
    copy = Launch("copy", (ordered,), (image,), launch.compute_dtype, node=launch.node)
    distance, *strides = _pixel_strides(channels, padded)
    whole = replace(image, sizes=(batch, channels, *padded), strides=(distance + LANES, *strides))
    rest = replace(launch, inputs=(whole, *launch.inputs[1:]))
    given = {name: launch.parameter(name) for name in launch.contract.parameters}
    return [copy, rest.with_parameters(**given | {"padding": tuple(0 for _ in padding)})]


def _pixel_strides(channels: int, lines: Sequence[int]) -> tuple[int, ...]:
    strides = [channels]
    for size in reversed(lines):
        strides.append(strides[-1] * size)
    *inner, batch = strides
    return (batch, 1, *reversed(inner))
