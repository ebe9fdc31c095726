# SPDX-License-Identifier: BSD-3-Clause
"""One launch of a kernel as an Atalla program on the engine, for the tests of code generation."""

from __future__ import annotations

from typing import Any

import torch
from torch.testing._internal.common_utils import TestCase

from torch_atalla.compiler.program.ir import Buffer, BufferKind, Immediate, Launch, LinearProgram, Operand, Port
from torch_atalla.compiler.targets.chip.generate import compile_networks
from torch_atalla.compiler.targets.chip.place import Run, run_network
from torch_atalla.compiler.targets.functional.pipeline import device_chip

BF16 = torch.bfloat16


def operand(program: LinearProgram, tensor: torch.Tensor, kind: BufferKind, name: str) -> Operand:
    storage = tensor.untyped_storage()
    flat = torch.empty(0, dtype=tensor.dtype).set_(storage)
    index = len(program.buffers)
    constant = flat if kind is BufferKind.CONSTANT else None
    program.buffers.append(Buffer(index, kind, name, storage.nbytes(), constant))
    offset = tensor.storage_offset() * tensor.dtype.itemsize
    return Operand(index, offset, tuple(tensor.shape), tuple(tensor.stride()), tensor.dtype)


def run_launch(
    kernel: str,
    out: torch.Tensor,
    inputs: list,
    /,
    *,
    constants: tuple[int, ...] = (),
    extra_outputs: int = 0,
    further: tuple[torch.Tensor, ...] = (),
    timing: bool = False,
    **parameters: Any,
) -> Run:
    """Runs the launch; `out` gives sizes, strides and dtype of the result, `constants` which inputs are constants.

    further: as `out`, for the results behind it; extra_outputs: how many are absent behind those.
    inputs: tensors, numbers (immediates) or None. Temporaries start as NaN, so that nothing reads what nobody wrote.
    """
    program = LinearProgram()
    operands: list = []
    given = []
    for i, value in enumerate(inputs):
        if not isinstance(value, torch.Tensor):
            operands.append(None if value is None else Immediate(value, torch.float64))
            continue
        kind = BufferKind.CONSTANT if i in constants else BufferKind.INPUT
        operands.append(operand(program, value, kind, f"in{i}"))
        if kind is BufferKind.INPUT:
            program.inputs.append(Port(f"in{i}", operands[-1]))
            given.append(value)
    results = [operand(program, x, BufferKind.OUTPUT, f"out{i}") for i, x in enumerate((out, *further))]
    program.outputs += [Port(f"out{i}", x) for i, x in enumerate(results)]
    outputs = (*results, *[None] * extra_outputs)
    launch = Launch(kernel, outputs, tuple(operands), out.dtype).with_parameters(**parameters)
    program.instructions.append(launch)
    network = compile_networks([program], {}, [""], device_chip())[0]
    return run_network(network, network.code(), given, timing=timing)


def bf16(*sizes: int, scale: float = 1.0, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed + sum(sizes))
    return (torch.randn(*sizes, generator=generator) * scale).to(BF16)


def closeness(found: torch.Tensor, expected: torch.Tensor) -> tuple[float, float]:
    """Cosine, and the largest difference over the largest magnitude."""
    found, expected = found.double().flatten(), expected.double().flatten()
    if not expected.abs().max() > 0:
        return 1.0, float((found - expected).abs().max())
    cosine = torch.nn.functional.cosine_similarity(found, expected, 0).item()
    return cosine, float((found - expected).abs().max() / expected.abs().max())


class CodegenTestCase(TestCase):
    def check(self, found, exact, functional=None, cosine=0.9999, error=0.02):
        """found: the chip's; exact: computed in float64; functional: the functional engine's, in bfloat16."""
        self.assertEqual(found.shape, exact.shape)
        similar, worst = closeness(found, exact)
        self.assertGreaterEqual(similar, cosine)
        self.assertLessEqual(worst, error)
        if functional is not None:
            similar, worst = closeness(found, functional.cpu())
            self.assertGreaterEqual(similar, cosine)
            self.assertLessEqual(worst, error)
