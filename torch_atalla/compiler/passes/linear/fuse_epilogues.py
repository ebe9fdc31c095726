# SPDX-License-Identifier: BSD-3-Clause
"""Lets a matrix kernel end with the elementwise launch that reads its result.

The rows of sums are still in cache then, and one launch less is made. Bias, activation, residual and what else was
joined before becomes the kernel's vector program, whose first input are the sums.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

import torch

from ...program import kernels
from ...program.ir import AnyOperand, BufferKind, Launch, LinearProgram, Operand
from ...program.vector_program import loop_dtype
from ..pass_result import PassResult
from .build import Builder, fits, is_step, viewed_launch
from .layout import Uses, with_sizes
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
        place = _reader(program, uses, i, out, removed)
        if place is None or instructions[place] is not program.instructions[place]:
            continue  # nobody, or another product's epilogue already
        reader = instructions[place]
        joined = _joined(inst, reader, out, uses, rounds)
        if joined is None or not target.takes(joined):
            continue
        instructions[place] = joined
        removed.add(i)
        names.append(reader.node)
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
    if not isinstance(inst, Launch):
        return None
    if not (is_step(inst) or (inst.program is not None and "elementwise" in inst.contract.traits)):
        return None
    return reader if uses.see_all_of(out, [reader]) and uses.may_move(i, reader) else None


def _joined(product: Launch, reader: Launch, out: Operand, uses: Uses, rounds: bool) -> Launch | None:
    sizes = out.sizes
    is_convolution = "convolution" in product.contract.traits
    if is_convolution:
        if rounds and out.dtype.itemsize * 8 <= _HALF_BITS:
            return None  # the steps that round cost more than the launch that is saved
        sizes = (*sizes[:2], prod(sizes[2:]))  # rows are channels, columns are positions
    viewed, whole = viewed_launch(reader, sizes, but=out), with_sizes(out, sizes)
    if viewed is None:
        return None
    builder = Builder(rounds)
    builder.made.append((out, builder.add_input(out, loop_dtype(out.dtype))))  # the sums
    builder.add(viewed)
    outputs, extras = list(viewed.writes()), builder.operands[1:]
    written = {operand.buffer for operand in outputs}
    if any(isinstance(operand, Operand) and operand.buffer in written for operand in (*product.inputs, *extras)):
        return None  # another part of the product may still read what one part overwrites
    if out.dtype == torch.int32 and any(_lies_in_dram(operand, uses) for operand in extras):
        return None  # the core would wait for its tiles; the long program by itself hides them
    if len(uses.readers[out.buffer]) > 1:  # others read the product itself: it is one more output
        if whole is None:
            return None
        builder.add_first_input(whole)
        outputs.append(whole)
    program = builder.finish(outputs)
    if is_convolution:
        first = with_sizes(outputs[0], out.sizes)
        if first is None:
            return None
        outputs[0] = first
    kernel = _fused_kernel(product)
    fused = kernels.contract(kernel)
    before = len(fused.inputs)
    if any(operand is not None for operand in product.inputs[before:]):
        return None  # the kernel with a program does not take it
    given = {name: product.parameter(name) for name in product.contract.parameters if name in fused.parameters}
    if fused.program_if is not None:
        given[fused.program_if] = True
    joined = replace(
        product,
        kernel=kernel,
        outputs=tuple(outputs),
        inputs=(*product.inputs[:before], *[None] * (before - len(product.inputs)), *extras),
        node=reader.node,
        program=program,
        fused=reader.computes_with(product),
        parts=(product, reader),
    )
    return joined.with_parameters(**given) if fits(joined) else None


def _lies_in_dram(operand: AnyOperand, uses: Uses) -> bool:
    """An operand of as many elements as the result that cannot stay in a scratchpad."""
    if not isinstance(operand, Operand) or uses.buffers[operand.buffer].kind is BufferKind.TEMPORARY:
        return False
    return all(stride != 0 for size, stride in zip(operand.sizes, operand.strides) if size != 1)
