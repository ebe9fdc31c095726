# SPDX-License-Identifier: BSD-3-Clause
"""The launches that a launch of the functional engine stands for: products whose weights are packed for the host, and
vector programs, become launches of kernels for which there is code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from torch_atalla.driver.dtypes import from_name

from ...passes.linear.layout import with_sizes
from ...program.ir import AnyOperand, Buffer, BufferKind, Launch, LinearProgram, Operand, contiguous_strides
from ...program.layouts import same_layout, span
from ...program.vector_program import CONVERT, loop_dtype, step_table
from .kernels.pointwise import Unsupported


def narrow(dtype: torch.dtype) -> torch.dtype:
    """The dtype of the code: numbers with a fraction are BF16."""
    return torch.bfloat16 if dtype.is_floating_point or dtype.is_complex else dtype


def plain_launches(program: LinearProgram, launch: Launch) -> list[Launch]:
    """Of a launch whose numbers are `narrow`. New temporaries are added to the program. Raises
    Unsupported."""
    if launch.kernel not in _SEPARATED:
        return [launch]
    separation = _Separation(program, launch)
    getattr(separation, launch.kernel)()
    return separation.made


# Methods of the class below have their names.
_SEPARATED = {
    *("fused", "reduce_fused", "gemm_fused", "gemm_packed", "convolution_fused", "convolution_packed"),
    "index_select_packed",
}


class _Separation:
    def __init__(self, program: LinearProgram, launch: Launch) -> None:
        self.program, self.launch = program, launch
        self.made: list[Launch] = []
        self.outputs = [operand for operand in launch.outputs if operand is not None]

    def temporary(self, sizes: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype) -> Operand:
        number = len(self.program.buffers)
        nbytes = max(1, span(sizes, strides)) * dtype.itemsize
        self.program.buffers.append(Buffer(number, BufferKind.TEMPORARY, f"value{number}", nbytes))
        return Operand(number, 0, sizes, strides, dtype)

    def add(
        self, kernel: str, out: Operand, inputs: Sequence[AnyOperand], dtype: torch.dtype, **given: object
    ) -> Launch:
        made = Launch(kernel, (out,), tuple(inputs), dtype, node=f"launch{len(self.made)}")
        self.made.append(made.with_parameters(**given) if given else made)
        return made

    def steps(self, values: Sequence[AnyOperand], outputs: Sequence[Operand]) -> None:
        """The vector program on these values."""
        program, sizes = self.launch.program, outputs[0].sizes
        assert program is not None
        known = [_broadcast(value, sizes) for value in values]
        strides = _strides_without_gaps(outputs[0])
        for number, step in enumerate(program.steps, len(program.inputs)):
            sources = [known[k] for k in step.sources]
            dtype = narrow(step.dtype)
            if step.kernel == CONVERT:
                kernel, result = "copy", dtype
                if number not in program.outputs and sources[0] is not None and sources[0].dtype == result:
                    known.append(sources[0])
                    continue
            else:
                kernel, kind = step.kernel, step_table()[step.kernel].result
                result = narrow(loop_dtype(step.dtype) if kind in ("same", "real") else from_name(kind))
            places = [out for out, value in zip(outputs, program.outputs) if value == number and out.dtype == result]
            target = places[0] if places else self.temporary(sizes, strides, result)
            made = Launch(kernel, (target,), tuple(sources), dtype, step.iparams, step.fparams)
            self.made.append(replace(made, node=f"launch{len(self.made)}"))
            known.append(target)
        for out, value in zip(outputs, program.outputs):
            if known[value] is not out:
                self.add("copy", out, [known[value]], out.dtype)

    def product(self, kernel: str, out: Operand, inputs: Sequence[AnyOperand], **given: object) -> None:
        """With the vector program behind it, if there is one. out: the first output."""
        extra = self.launch.inputs[len(inputs) :]
        if self.launch.program is None:
            self.add(kernel, out, inputs, self.launch.compute_dtype, **given)
            return
        sums = self.temporary(out.sizes, _strides_without_gaps(out), narrow(self.launch.program.inputs[0]))
        self.add(kernel, sums, inputs, self.launch.compute_dtype, **given)
        outputs = [seen for x in self.outputs if isinstance(seen := _positions(x, out.sizes), Operand)]
        self.steps([sums, *(_positions(x, out.sizes) for x in extra)], outputs)

    # -- kernels ------------------------------------------------------------------------------------------------------
    def fused(self) -> None:
        self.steps(self.launch.inputs, self.outputs)

    def gemm_fused(self) -> None:
        given = {name: self.launch.parameter(name) for name in ("alpha", "beta")}
        self.product("gemm", self.outputs[0], self.launch.inputs[:3], activation="none", **given)

    def gemm_packed(self) -> None:
        a, b, c = self.launch.inputs[:3]
        assert isinstance(a, Operand) and isinstance(b, Operand)
        k, n = a.sizes[1], self.outputs[0].sizes[1]
        weight = replace(b, sizes=(1, k, n), strides=(0, 1, k))
        self.outputs = [_batched(x) for x in self.outputs]
        extra = tuple(_batched(x) if isinstance(x, Operand) else x for x in self.launch.inputs[3:])
        inputs = (_batched(a), weight, _batched(c) if isinstance(c, Operand) else c)
        self.launch = replace(self.launch, inputs=(*inputs, *extra))
        self.product("gemm", self.outputs[0], inputs, activation="none", alpha=1.0, beta=float(c is not None))

    def convolution_fused(self) -> None:
        self._convolution(4, self.launch.inputs[:4])

    def convolution_packed(self) -> None:
        x, packed, bias = self.launch.inputs[:3]
        assert isinstance(x, Operand) and isinstance(packed, Operand)
        sizes = (self.outputs[0].sizes[1], *packed.sizes[1:-1])
        weight = replace(packed, sizes=sizes, strides=contiguous_strides(sizes))
        self._convolution(3, (x, weight, bias))

    def _convolution(self, count: int, inputs: Sequence[AnyOperand]) -> None:
        self.launch = replace(self.launch, inputs=(*inputs, *self.launch.inputs[count:]))
        names = ("groups", "stride", "padding", "dilation")
        given = {name: self.launch.parameter(name) for name in names}
        self.product("convolution", self.outputs[0], inputs, **given)

    def index_select_packed(self) -> None:
        table, index = self.launch.inputs[:2]
        assert isinstance(table, Operand)
        rows, k = self.launch.parameter("rows"), table.sizes[1]
        dense = replace(table, sizes=(rows, k), strides=(k, 1))
        self.add("index_select", self.outputs[0], (dense, index), self.launch.compute_dtype, dim=0)

    def reduce_fused(self) -> None:
        sizes = torch.broadcast_shapes(*(x.sizes for x in self.launch.inputs if isinstance(x, Operand)))
        assert self.launch.program is not None
        values = self.temporary(tuple(sizes), contiguous_strides(tuple(sizes)), self.launch.compute_dtype)
        self.steps(self.launch.inputs, [values])
        kernel = f"reduce.{self.launch.parameter('reduction')}"
        (out,) = self.outputs
        reduced = Launch(kernel, (out,), (values,), self.launch.compute_dtype, node="reduction")
        names = reduced.contract.parameters.keys() & self.launch.contract.parameters.keys()
        self.made.append(reduced.with_parameters(**{name: self.launch.parameter(name) for name in names}))


def _strides_without_gaps(x: Operand) -> tuple[int, ...]:
    """The operand's, or contiguous ones if those leave gaps or see an element twice."""
    dense, step = [0] * len(x.sizes), 1
    for d in sorted(range(len(x.sizes)), key=lambda d: (x.strides[d], -d)):
        dense[d] = step
        step *= x.sizes[d]
    return x.strides if same_layout(x.sizes, x.strides, tuple(dense)) else contiguous_strides(x.sizes)


def _batched(x: Operand) -> Operand:
    """A matrix, or what is broadcast to one, as one of a batch."""
    return replace(x, sizes=(1, *x.sizes), strides=(0, *x.strides)) if len(x.sizes) == 2 else x


def _positions(x: AnyOperand, sizes: tuple[int, ...]) -> AnyOperand:
    """An operand [n, co, positions] of a convolution [n, co, *o]."""
    if not isinstance(x, Operand) or len(x.sizes) != 3 or len(sizes) <= 3:
        return x
    steps = contiguous_strides(sizes[2:])
    return replace(
        x, sizes=(*x.sizes[:2], *sizes[2:]), strides=(*x.strides[:2], *(x.strides[2] * step for step in steps))
    )


def _broadcast(x: AnyOperand, sizes: tuple[int, ...]) -> AnyOperand:
    if not isinstance(x, Operand) or x.sizes == sizes:
        return x
    missing = len(sizes) - len(x.sizes)
    if missing >= 0 and all(n in (1, size) for n, size in zip(x.sizes, sizes[missing:])):
        strides = tuple(step if n == size else 0 for n, size, step in zip(x.sizes, sizes[missing:], x.strides))
        return replace(x, sizes=sizes, strides=(0,) * missing + strides)
    found = with_sizes(x, sizes)
    if found is None:
        raise Unsupported(f"a step on an operand of {list(x.sizes)} for results of {list(sizes)}")
    return found
