# SPDX-License-Identifier: BSD-3-Clause
"""Lets a matrix kernel end with the elementwise launch that reads its result.

The rows of sums are still in cache then, and one launch less is made. Bias, activation, residual and what else was
joined before becomes the kernel's vector program, whose first input are the sums.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

import torch

from torch_atalla.driver.c_abi import ATALLA_MAX_OPERANDS

from ...program import kernels
from ...program.ir import AnyOperand, BufferKind, Launch, LinearProgram, Operand
from ...program.vector_program import CONVERT, MAX_INPUTS, MAX_OUTPUTS, Step, VectorProgram, loop_dtype
from ..pass_result import PassResult
from .build import Builder, is_step
from .layout import Uses, same_elements, with_sizes
from .rewrite import rewritten
from .target import FUNCTIONAL, Target

_HALF_BITS = 16
_FLOATS = (torch.float32, torch.float16, torch.bfloat16)
_INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)  # of products whose sums are int32
_MATRIX_KERNELS = frozenset({"product", "convolution"})  # traits


def fuse_epilogues(
    program: LinearProgram, *, rounds: bool = True, target: Target = FUNCTIONAL
) -> tuple[LinearProgram, PassResult]:
    instructions: list = list(program.instructions)
    uses = Uses(program)
    removed: set[int] = set()
    names = []
    for i, inst in enumerate(program.instructions):
        if not isinstance(inst, Launch) or inst.program is not None or not _takes_epilogue(inst):
            continue
        out = inst.outputs[0]
        if out is None or len(inst.outputs) != 1 or not uses.is_private(out.buffer):
            continue
        reader = _reader(program, uses, i, out, removed)
        if reader is None or instructions[reader] is not program.instructions[reader]:
            continue  # nobody, or another product's epilogue already
        joined = _joined(inst, program.instructions[reader], out, uses, rounds)
        if joined is None or not target.takes(joined):
            continue
        instructions[reader] = joined
        removed.add(i)
        names.append(program.instructions[reader].node)
    return rewritten(program, instructions, removed), PassResult("fuse_epilogues", tuple(names))


def _fused_kernel(product: Launch) -> str:
    return product.contract.variants.get("fused", product.kernel)


def _takes_epilogue(launch: Launch) -> bool:
    fused = kernels.contract(_fused_kernel(launch))
    if not launch.contract.traits & _MATRIX_KERNELS or not fused.takes_program:
        return False
    operands = [operand for operand in (*launch.outputs, *launch.inputs) if isinstance(operand, Operand)]
    integers = launch.compute_dtype == torch.int32
    allowed = _INTEGERS if integers else (*_FLOATS, torch.int8)  # packed weights may be int8
    if integers and operands[0].dtype != torch.int32:
        return False
    if any(operand.dtype not in allowed for operand in operands):
        return False
    return "activation" not in launch.contract.parameters or launch.parameter("activation") == "none"


def _reader(program: LinearProgram, uses: Uses, i: int, out: Operand, removed: set[int]) -> int | None:
    """The first reader of the product, if the product may run where that stands."""
    readers = uses.readers[out.buffer]
    if not readers or readers[0] <= i or readers[0] in removed:
        return None
    reader = readers[0]
    inst = program.instructions[reader]
    if program.segments[reader] != program.segments[i] or not isinstance(inst, Launch):
        return None
    if not (is_step(inst) or (inst.program is not None and "elementwise" in inst.contract.traits)):
        return None
    if not uses.see_all_of(program, out, [reader]):
        return None
    for operand in program.instructions[i].reads():
        if any(i < writer <= reader for writer in uses.writers[operand.buffer]):
            return None
    return reader


def _joined(product: Launch, reader: object, out: Operand, uses: Uses, rounds: bool) -> Launch | None:
    assert isinstance(reader, Launch)
    steps, operands, outputs = _as_program(reader, rounds)
    sizes = out.sizes
    is_convolution = "convolution" in product.contract.traits
    if is_convolution:
        if rounds and out.dtype.itemsize * 8 <= _HALF_BITS:
            return None  # the steps that round cost more than the launch that is saved
        sizes = (*sizes[:2], prod(sizes[2:]))  # rows are channels, columns are positions
    viewed: list[Operand | None] = [with_sizes(operand, sizes) for operand in outputs]
    extras: list[AnyOperand] = []
    # Input 0 are the sums; others keep their order. Inputs that are the product become the sums, or what is left of
    # them where the product would have been stored in a narrower type.
    inputs: list = [loop_dtype(out.dtype)]
    conversions: list[Step] = []
    place: dict[int, tuple[str, int]] = {}
    rounded: int | None = None
    for k, (operand, dtype) in enumerate(zip(operands, steps.inputs)):
        if isinstance(operand, Operand) and same_elements(out, operand):
            if out.dtype.itemsize * 8 > _HALF_BITS or not rounds:
                if dtype == inputs[0]:
                    place[k] = ("in", 0)
                    continue
                conversions.append(Step(CONVERT, (0,), dtype))
            else:
                if rounded is None:
                    conversions.append(Step(CONVERT, (0,), out.dtype))
                    rounded = len(conversions) - 1
                conversions.append(Step(CONVERT, (-1 - rounded,), dtype))
            place[k] = ("step", len(conversions) - 1)
            continue
        if isinstance(operand, Operand):
            operand = with_sizes(operand, sizes)
        if operand is None:
            return None
        place[k] = ("in", len(inputs))
        inputs.append(dtype)
        extras.append(operand)
    written = {operand.buffer for operand in outputs}
    if any(isinstance(operand, Operand) and operand.buffer in written for operand in (*product.inputs, *extras)):
        return None  # another part of the product may still read what one part overwrites
    if out.dtype == torch.int32 and any(_lies_in_dram(operand, uses) for operand in extras):
        return None  # the core would wait for its tiles; the long program by itself hides them
    first = len(inputs)

    def number(value: int) -> int:
        if value >= len(steps.inputs):
            return value - len(steps.inputs) + first + len(conversions)
        kind, k = place[value]
        return k if kind == "in" else first + k

    all_steps = [
        replace(step, sources=tuple(source if source >= 0 else first - 1 - source for source in step.sources))
        for step in conversions
    ]
    all_steps += [replace(step, sources=tuple(map(number, step.sources))) for step in steps.steps]
    results = [number(value) for value in steps.outputs]
    if any(reader_index for reader_index in uses.readers[out.buffer][1:]):
        # Others read the product itself: it is one more output.
        all_steps.append(Step(CONVERT, (0,), loop_dtype(out.dtype)))
        results.append(first + len(all_steps) - 1)
        viewed.append(with_sizes(out, sizes))
    if any(operand is None for operand in viewed):
        return None
    program = VectorProgram(tuple(inputs), tuple(all_steps), tuple(results))
    if is_convolution:
        assert viewed[0] is not None
        viewed[0] = with_sizes(viewed[0], out.sizes)
    kernel = _fused_kernel(product)
    fused = kernels.contract(kernel)
    before = len(fused.inputs)
    if any(operand is not None for operand in product.inputs[before:]):
        return None  # the kernel with a program does not take it
    if not program.fits() or len(inputs) > MAX_INPUTS or len(results) > MAX_OUTPUTS:
        return None
    if len(results) + before + len(extras) + 1 > ATALLA_MAX_OPERANDS:
        return None
    given = {name: product.parameter(name) for name in product.contract.parameters if name in fused.parameters}
    if fused.program_if is not None:
        given[fused.program_if] = True
    return replace(
        product,
        kernel=kernel,
        outputs=tuple(viewed),
        inputs=(*product.inputs[:before], *[None] * (before - len(product.inputs)), *extras),
        node=reader.node,
        program=program,
        fused=reader.computes_with(product),
        parts=(product, reader),
    ).with_parameters(**given)


def _lies_in_dram(operand: AnyOperand, uses: Uses) -> bool:
    """An operand of as many elements as the result that cannot stay in a scratchpad."""
    if not isinstance(operand, Operand) or uses.buffers[operand.buffer].kind is BufferKind.TEMPORARY:
        return False
    return all(stride != 0 for size, stride in zip(operand.sizes, operand.strides) if size != 1)


def _as_program(launch: Launch, rounds: bool) -> tuple[VectorProgram, list[AnyOperand], list[Operand]]:
    outputs = list(launch.writes())
    if launch.program is not None:
        return launch.program, list(launch.inputs), outputs
    builder = Builder(rounds)
    builder.add(launch)
    return builder.finish(outputs), builder.operands, outputs
