# SPDX-License-Identifier: BSD-3-Clause
"""Launches as functions of the scalar core, for what the vector unit has no kernel for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from ....program.ir import AnyOperand, Immediate, Launch, Operand
from ....program.rules import Rules
from ..image import Address
from ..kernels.pointwise import Layout, Unsupported, collapse
from ..network import element_bytes
from ..ports import RawOperand
from ..selection import Selection
from .memory import Form, Tensor, kind_of, words_of
from .values import Core, Value


class Context:
    """A launch under construction: its operands as tensors (or values, if they are immediate), and parameters."""

    def __init__(self, launch: Launch, forms: Sequence[Form | Immediate | None]) -> None:
        self.launch = launch
        self.core = Core(f"core_{launch.kernel}")
        self.compute = kind_of(self.launch.compute_dtype)
        operands = [self._operand(number, form) for number, form in enumerate(forms)]
        count = len(self.launch.outputs)
        self.outputs: list[Any] = operands[:count]
        self.inputs: list[Any] = operands[count:]
        self.constants: dict[int, torch.Tensor] = {}
        self.scratches: dict[int, int] = {}  # operand -> elements
        self._next = len(operands)

    def _operand(self, number: int, form: Form | Immediate | None) -> Tensor | Value | None:
        if isinstance(form, Immediate):
            return self.core.constant(self.wrapped(form.value), kind_of(form.dtype))
        return None if form is None else self._tensor(number, form)

    def _tensor(self, number: int, form: Form) -> Tensor:
        return Tensor(self.core, number, form, tuple(range(form.rank)))

    def constant(self, values: torch.Tensor) -> Tensor:
        """A table that stands beside the weights."""
        number = self._next
        self._next += 1
        self.constants[number] = values
        return self._tensor(number, Form(values.dtype, values.ndim))

    def scratch(self, elements: int) -> Tensor:
        """Room for 32-bit integers in DRAM, without contents."""
        number = self._next
        self._next += 1
        self.scratches[number] = elements
        return self._tensor(number, Form(torch.int32, 1))

    def wrapped(self, value: Any) -> Any:
        """An integer as one of the compute dtype, if that has fewer than 32 bits."""
        dtype = self.launch.compute_dtype
        if type(value) is not int or kind_of(dtype) != "i" or dtype.itemsize == 4:
            return value
        return int(torch.tensor(value, dtype=torch.int64).to(dtype))

    def parameter(self, name: str) -> Any:
        return self.launch.parameter(name)

    def read(self, source: Tensor | Value, kind: str = "") -> Value:
        """The first element of a tensor, or an immediate, as a kind (by default the compute dtype's)."""
        value = source if isinstance(source, Value) else source.load()
        return self.core.convert(value, kind or self.compute)


Body = Callable[[Context], None]
routine = Rules()  # bodies by kernel


def emit(s: Selection, launch: Launch, body: Body) -> None:
    """Adds the call of a launch. Raises Unsupported."""
    if "dim" in launch.contract.parameters:
        launch = _with_a_dimension(launch)
    operands: Sequence[AnyOperand] = (*launch.outputs, *launch.inputs)
    if "elementwise" in launch.contract.traits:
        operands = _with_fewest_dims(operands)
    words: dict[str, Any] = {}
    forms: list[Form | Immediate | None] = []
    for number, operand in enumerate(operands):
        if not isinstance(operand, Operand):
            forms.append(operand)
            continue
        raw = isinstance(operand, RawOperand)
        forms.append(Form(operand.dtype, len(operand.sizes), raw, 0 in operand.sizes))
        nbytes = operand.dtype.itemsize if raw else element_bytes(operand.dtype)
        words |= words_of(number, s.address(operand), operand.sizes, operand.strides, nbytes)
    if launch.compute_dtype.is_complex or any(isinstance(f, Form) and f.dtype.is_complex for f in forms):
        raise Unsupported("complex numbers")
    context = Context(launch, forms)
    body(context)
    builder = context.core.b
    builder.ret()
    builder.name += f"_{builder.digest()}"  # launches share a function where their code is the same
    for number, values in context.constants.items():
        address = Address(s.constant(values))
        words |= words_of(number, address, values.shape, values.stride(), values.element_size())
    for number, elements in context.scratches.items():
        scratch = s.new_operand((elements,), (1,), elements, torch.int32)
        words |= words_of(number, s.address(scratch), scratch.sizes, scratch.strides, element_bytes(scratch.dtype))
    s.image.call(builder.name, lambda: builder, words, s.node)
    s.network.scalar_calls.append(len(s.image.calls) - 1)


def _with_a_dimension(launch: Launch) -> Launch:
    """Of a kernel that works along a dimension: operands without any have one of one element."""

    def operand(x: Any) -> Any:
        return replace(x, sizes=(1,), strides=(1,)) if isinstance(x, Operand) and not x.sizes else x

    return replace(launch, outputs=tuple(map(operand, launch.outputs)), inputs=tuple(map(operand, launch.inputs)))


def _with_fewest_dims(operands: Sequence[AnyOperand]) -> list[AnyOperand]:
    """Operands of an elementwise launch, whose elements have no order. Each dimension is a loop: neighbours in memory
    become one where all operands allow it, and the longest is the innermost, since inner loops begin anew each time."""
    tensors = [x for x in operands if isinstance(x, Operand)]
    if 0 in tensors[0].sizes:
        return list(operands)
    dims = sorted(zip(*(x.strides for x in tensors), tensors[0].sizes), reverse=True)  # strides, and a size
    *strides, sizes = map(tuple, zip(*dims)) if dims else ((),) * (len(tensors) + 1)
    joined = collapse(Layout(sizes, tuple(strides)))
    order = sorted((d for d, size in enumerate(joined.sizes) if size > 1), key=joined.sizes.__getitem__)
    sizes, *strides = (tuple(numbers[d] for d in order) for numbers in (joined.sizes, *joined.strides))
    given = iter(strides)
    return [replace(x, sizes=sizes, strides=next(given)) if isinstance(x, Operand) else x for x in operands]
