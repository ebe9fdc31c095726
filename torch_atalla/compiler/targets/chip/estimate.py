# SPDX-License-Identifier: BSD-3-Clause
"""The cycles that the timing model gives for the launches of a network's code, with what they join and what they keep.

The functional engine makes launches of its own of the same graph: it joins others, and keeps others in scratchpads.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import torch

from torch_atalla.isa.geometry import LANES

from ...program.ir import AnyOperand, Immediate, Launch, Operand
from ...program.vector_program import step_table
from ...schedule.chip_model import ChipModel
from ...schedule.work import measure
from .divide import divided
from .fusion import Fused
from .network import Network, Selected

GELU_KERNEL = "pointwise.gelu_tanh"
_FUSED = {"gemm": "gemm_fused", "convolution": "convolution_fused", "pointwise.steps": "fused"}


def estimates(network: Network, chip: ChipModel) -> list[int | None]:
    """Of each of `network.launches`; None where the device library tells no work."""
    return [_cycles(network, selected, chip) for selected in network.launches]


def _cycles(network: Network, selected: Selected, chip: ChipModel) -> int | None:
    if not isinstance(selected.launch, Launch):
        return None
    constants = [k for k, x in enumerate(selected.launch.inputs) if _is_constant(network, x)]
    total = 0
    for launch in _in_pixel_order(_packed(_as_kernel(selected.launch), constants)):
        work = measure(launch, chip.geometry)
        if work is None:
            return None
        kept = sum(1 << k for k, x in enumerate((*launch.outputs, *launch.inputs)) if _is_kept(network, x))
        total += chip.cycles(divided(work, selected.division), kept, len(selected.division.parts))
    return total


def _is_kept(network: Network, operand: AnyOperand) -> bool:
    return isinstance(operand, Operand) and network.regions.get(operand.buffer) in network.kept


def _is_constant(network: Network, operand: AnyOperand) -> bool:
    return isinstance(operand, Operand) and operand.buffer in network.constant_buffers


def _packed(launch: Launch, constants: Collection[int]) -> Launch:
    """With the weights of a product as they lie in the file, its depth innermost."""
    weight = launch.inputs[1] if len(launch.inputs) > 1 else None
    if "product" not in launch.contract.traits or 1 not in constants or not isinstance(weight, Operand):
        return launch
    *outer, depth, width = weight.sizes
    strides = (*[0 if size == 1 else depth * width for size in outer], 1, depth)
    inputs = (launch.inputs[0], replace(weight, strides=strides), *launch.inputs[2:])
    return replace(launch, inputs=inputs)


def _as_kernel(launch: Launch) -> Launch:
    """The launch of a kernel of the device library that does the same."""
    if not isinstance(launch, Fused):
        return launch
    pointwise = launch.kernel == "pointwise.steps"
    if pointwise and len(launch.parts) == 1:
        return launch.parts[0]
    inputs: list[AnyOperand] = list(launch.inputs)
    if not pointwise:
        inputs += [None] * (3 - len(inputs))
    program = Immediate(0, launch.compute_dtype)  # it costs nothing
    inputs += [x for x in (launch.residual, program) if x is not None]
    compute = torch.float32 if launch.kernel == "convolution" else launch.compute_dtype  # it has no other form
    plain = Launch(_FUSED[launch.kernel], launch.outputs, tuple(inputs), compute, node=launch.node)
    known = {} if pointwise else launch.contract.parameters
    given = {name: launch.parameter(name) for name in plain.contract.parameters if name in known}
    after = launch if pointwise else launch.parts[1]
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
    """Before a convolution of few channels that are not innermost, the copy that makes them so and pads the image."""
    image = launch.inputs[0]
    if "convolution" not in launch.contract.traits or not isinstance(image, Operand):
        return [launch]
    batch, channels, *lines = image.sizes
    if image.strides[1] == 1 or channels % LANES == 0:
        return [launch]
    padding = launch.parameter("padding")
    padded = tuple(size + 2 * max(0, p) for size, p in zip(lines, padding))
    ordered = replace(image, sizes=image.sizes, strides=_pixel_strides(channels, lines))
    copy = Launch("copy", (ordered,), (image,), launch.compute_dtype, node=launch.node)
    whole = replace(image, sizes=(batch, channels, *padded), strides=_pixel_strides(channels, padded))
    rest = replace(launch, inputs=(whole, *launch.inputs[1:]))
    given = {name: launch.parameter(name) for name in launch.contract.parameters}
    return [copy, rest.with_parameters(**given | {"padding": tuple(0 for _ in padding)})]


def _pixel_strides(channels: int, lines: Sequence[int]) -> tuple[int, ...]:
    strides = [channels]
    for size in reversed(lines):
        strides.append(strides[-1] * size)
    *inner, batch = strides
    return (batch, 1, *reversed(inner))
