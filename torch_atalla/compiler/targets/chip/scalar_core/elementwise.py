# SPDX-License-Identifier: BSD-3-Clause
"""Formulas, copies, concatenation and fills, element by element."""

from __future__ import annotations

import torch

from torch_atalla.driver import c_abi

from ..formulas.expression import formula_of, formulas, parse
from ..kernels.pointwise import Unsupported
from .formula import evaluate
from .memory import kind_of
from .positions import positions
from .routine import Context, routine
from .values import Value


def formula(c: Context) -> None:
    row = formulas()[c.launch.kernel]
    text = formula_of(c.launch.kernel, c.launch.compute_dtype)
    if text is None:
        raise Unsupported(f"no formula for {c.launch.compute_dtype}")
    names: dict[str, Value] = {}
    for name in row["scalars"]:
        given = c.wrapped(c.parameter(name))
        names[f"has_{name}"] = c.core.bits(int(given is not None), "b")
        kind = "i" if c.compute == "b" else c.compute
        names[name] = c.core.constant(given if given is not None else 0, kind)
    with c.outputs[0].each(*c.outputs, *c.inputs) as elements:
        outputs, inputs = elements[: len(c.outputs)], elements[len(c.outputs) :]
        for (name, kind), source in zip(row["inputs"], inputs, strict=True):
            names[name] = c.read(source, c.compute if kind == "compute" else kind_of(getattr(torch, kind)))
        for condition in row["requires"]:
            holds = c.core.nonzero(evaluate(c.core, parse(condition)[0], names, c.compute))
            c.core.fault_unless(holds, c_abi.ATALLA_ISA_FAULT_ELEMENT)
        results = [evaluate(c.core, tree, names, c.compute) for tree in parse(text)]
        for out, result in zip(outputs, results, strict=True):
            out.store(c.core.convert(result, out.kind))


@routine("copy")
def copy(c: Context) -> None:
    """Of equal dtypes the bits."""
    (out,), (x, *_) = c.outputs, c.inputs
    with out.each(out, x) as (target, source):
        if out.form == x.form:
            target.copy(source)
        elif out.kind == "f" and x.kind in "il" and not out.form.raw:
            target.store(c.core.new("stbf.s", "f", source.load()), is_bf16=True)
        else:
            target.store(source.load())


@routine("cat")
def cat(c: Context) -> None:
    """The bits of each input into its range of the result."""
    (out,), dim = c.outputs, c.parameter("dim")
    rest = out
    for x in c.inputs:
        with x.each(rest, x) as (target, source):
            target.copy(source)
        rest = rest.shifted(dim, x.size(dim))


@routine("fill")
def fill(c: Context) -> None:
    (out,), (value, *_) = c.outputs, c.inputs
    stored = c.core.convert(value, out.kind)
    with out.each() as (target,):
        target.store(stored)


@routine("arange")
def arange(c: Context) -> None:
    """start + i step, each element from its number."""
    (out,), (start, step) = c.outputs, c.inputs
    with positions(out) as (index,):
        out[index].store(start + index * step)
