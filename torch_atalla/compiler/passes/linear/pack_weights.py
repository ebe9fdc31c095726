# SPDX-License-Identifier: BSD-3-Clause
"""Weights of matrix products and convolutions become panels of 32 columns, as `gemm_packed` and `convolution_packed`
read them.

A weight is packed when every use of it can read the packed form: products with more than one row, whose sums then have
the order that `gemm` gives them, and the lookup of an embedding that shares it. So it is stored once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch

from torch_atalla.loadable.packed import PANEL, pack

from ...program.ir import Buffer, BufferKind, Instruction, Launch, LinearProgram, Operand
from ...program.sizes import Symbols
from ..pass_result import PassResult
from .layout import Uses, is_static
from .packed_convolution import convolution_weight, packed_convolution
from .rewrite import remove_unused_buffers

Enough = Callable[[int], bool]  # whether so many rows are enough

_FLOATS = (torch.float32, torch.float16, torch.bfloat16)
_MAX_PADDING = 0.01  # of a weight's size


def pack_weights(
    program: LinearProgram, *, one_row: bool = False, weights: str | None = None, symbols: Symbols | None = None
) -> tuple[LinearProgram, PassResult]:
    """`one_row`: products with one row too, where `gemm` has another order of summation. `weights`: "bfloat16" or
    "int8", in which packed weights that only products read are stored; the arithmetic stays float32. `symbols`: of a
    program whose sizes follow its calls."""
    few = 1 if one_row or weights is not None else 2  # rows that a product must have

    def enough(rows: int) -> bool:
        return (rows if symbols is None else symbols.least(rows)) >= few

    returned = {port.operand.buffer for port in program.outputs}
    buffers, instructions = list(program.buffers), list(program.instructions)
    replaced: dict[int, list[Instruction]] = {}  # by more than one
    packed = []
    for buffer, users in Uses(program).readers.items():
        if program.buffers[buffer].kind is not BufferKind.CONSTANT or buffer in returned:
            continue
        seen = {_weight(instructions[i], buffer, enough) for i in users}
        weight = seen.pop()
        traits = [inst.contract.traits for i in users if isinstance(inst := instructions[i], Launch)]
        if seen or weight is None or not any(t & {"product", "convolution"} for t in traits):
            continue
        narrow = weights if all("product" in t for t in traits) else None
        if narrow is not None and any(instructions[i].writes()[0].dtype != torch.float32 for i in users):
            narrow = None
        new = Buffer(len(buffers), BufferKind.CONSTANT, f"{buffers[buffer].name}.packed", 0, None)
        matrix = buffers[buffer].view(weight)
        scale = None
        if narrow == "int8":
            matrix, factors = quantize(matrix)
            scale = len(buffers) + 1
        elif narrow is not None:
            matrix = matrix.to(torch.bfloat16)
        tensor = pack(matrix)
        new = replace(new, nbytes=tensor.numel() * tensor.element_size(), tensor=tensor)
        buffers.append(new)
        operand = Operand(new.index, 0, tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype)
        if scale is not None:
            buffers.append(
                Buffer(scale, BufferKind.CONSTANT, f"{buffers[buffer].name}.scale", 4 * factors.numel(), factors)
            )
        for i in users:
            launch = _rewrite(instructions[i], operand, weight)
            if scale is None:
                instructions[i] = launch
            else:
                replaced[i] = _scaled(launch, scale, buffers)
        packed.append(buffers[buffer].name)
    expanded = [replaced.get(i, [inst]) for i, inst in enumerate(instructions)]
    result = replace(
        program,
        buffers=buffers,
        instructions=[inst for several in expanded for inst in several],
        segments=[number for number, several in zip(program.segments, expanded) for _ in several],
    )
    return remove_unused_buffers(result), PassResult("pack_weights", tuple(packed))


def quantize(matrix: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """[n, k] as int8 and a factor for each of the n rows: the largest magnitude becomes 127."""
    factors = matrix.float().abs().amax(1).clamp(min=1e-30) / 127
    return (matrix.float() / factors[:, None]).round().clamp(-127, 127).to(torch.int8), factors


def _scaled(product: Launch, scale: int, buffers: list[Buffer]) -> list[Instruction]:
    """The product of whole numbers, then its factors, then the bias: later passes join them."""
    out, bias = product.writes()[0], product.inputs[2]

    def temporary() -> Operand:
        m, n = out.sizes
        buffer = Buffer(len(buffers), BufferKind.TEMPORARY, f"{product.node}_sums", 4 * m * n)
        buffers.append(buffer)
        return Operand(buffer.index, 0, (m, n), (n, 1), torch.float32)

    sums = temporary()
    scaled = out if bias is None else temporary()
    factors = Operand(scale, 0, out.sizes, (0, 1), torch.float32)
    launches: list[Instruction] = [
        replace(product, outputs=(sums,), inputs=(*product.inputs[:2], None)),
        Launch("pointwise.mul", (scaled,), (sums, factors), torch.float32, node=product.node),
    ]
    if bias is not None:
        add = Launch("pointwise.add", (out,), (scaled, bias), torch.float32, node=product.node)
        launches.append(add.with_parameters(alpha=1))
    return launches


def _weight(inst: Instruction, buffer: int, enough: Enough) -> Operand | None:
    """The buffer as the [n, k] matrix that the instruction sees; None when it cannot read it packed."""
    if not isinstance(inst, Launch) or inst.program is not None:
        return None
    if sum(operand.buffer == buffer for operand in inst.reads()) != 1:
        return None
    if "packed" not in inst.contract.variants:
        return None
    if "convolution" in inst.contract.traits:
        weight = convolution_weight(inst, buffer)
    elif "lookup" in inst.contract.traits:
        weight = _lookup_weight(inst, buffer)
    else:
        weight = _product_weight(inst, buffer, enough)
    if weight is None or weight.dtype not in _FLOATS:
        return None
    n, k = weight.sizes
    padding = -n % PANEL
    if n < PANEL or k < 8 or padding > _MAX_PADDING * n:
        return None
    return weight


def _product_weight(inst: Launch, buffer: int, enough: Enough) -> Operand | None:
    out, (a, b, c) = inst.outputs[0], inst.inputs
    if not isinstance(b, Operand) or b.buffer != buffer or not isinstance(a, Operand) or out is None:
        return None
    if not all(type(number) is int for number in (b.offset, *b.sizes[1:], *b.strides)):
        return None
    alpha, beta = inst.parameter("alpha"), inst.parameter("beta")
    if inst.compute_dtype not in _FLOATS or inst.parameter("activation") != "none" or alpha != 1:
        return None
    if c is not None and beta not in (0, 1):
        return None
    if out.dtype not in _FLOATS or a.dtype not in _FLOATS:
        return None
    rows = _rows(out)
    if rows is None or not enough(rows) or _rows(a) is None or 0 in out.sizes or 0 in a.sizes:
        return None
    if c is not None and beta == 1 and (not isinstance(c, Operand) or c.dtype not in _FLOATS or _rows(c) is None):
        return None
    if b.sizes[0] != 1 and b.strides[0] != 0:
        return None
    # b is [1, k, n]; the matrix is its transpose.
    return Operand(buffer, b.offset, (b.sizes[2], b.sizes[1]), (b.strides[2], b.strides[1]), b.dtype)


def _rows(operand: Operand) -> int | None:
    """The rows of [b, m, n] taken as one matrix; None when batches do not continue one another."""
    b, m, _ = operand.sizes
    stride = operand.strides
    return b * m if b == 1 or m == 1 or stride[0] == m * stride[1] else None


def _as_matrix(operand: Operand) -> Operand:
    b, m, n = operand.sizes
    row = operand.strides[0] if m == 1 and b > 1 else operand.strides[1]
    return replace(operand, sizes=(b * m, n), strides=(row, operand.strides[2]))


def _lookup_weight(inst: Launch, buffer: int) -> Operand | None:
    table = inst.inputs[0]
    if not isinstance(table, Operand) or table.buffer != buffer or inst.parameter("dim") != 0 or len(table.sizes) != 2:
        return None
    return replace(table) if is_static(table) and inst.outputs[0] is not None else None


def _rewrite(inst: Instruction, packed: Operand, weight: Operand) -> Launch:
    assert isinstance(inst, Launch) and inst.outputs[0] is not None
    kernel = inst.contract.variants["packed"]
    if "lookup" in inst.contract.traits:
        return replace(inst, kernel=kernel, inputs=(packed, inst.inputs[1])).with_parameters(rows=weight.sizes[0])
    if "convolution" in inst.contract.traits:
        return packed_convolution(inst, packed)
    a, _, c = inst.inputs
    assert isinstance(a, Operand)
    bias = _as_matrix(c) if isinstance(c, Operand) and inst.parameter("beta") == 1 else None
    return replace(
        inst, kernel=kernel, outputs=(_as_matrix(inst.outputs[0]),), inputs=(_as_matrix(a), packed, bias)
    ).with_parameters()
