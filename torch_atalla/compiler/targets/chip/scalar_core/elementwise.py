# SPDX-License-Identifier: BSD-3-Clause
"""Formulas, copies, concatenation and fills, element by element."""

from __future__ import annotations

import torch

from torch_atalla.driver import c_abi

from ..formulas.expression import formula_of, formulas, parse
from ..kernels.pointwise import Unsupported
from .formula import evaluate
from .memory import Tensor, kind_of
from .routine import Context
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
        names[name] = c.core.constant(given if given is not None else 0, _scalar_kind(c.compute))
    tensors = [x for x in (*c.outputs, *c.inputs) if isinstance(x, Tensor)]
    first = c.outputs[0]
    with first.each(range(first.rank), tensors) as places:
        here = dict(zip(tensors, places))
        for (name, kind), source in zip(row["inputs"], c.inputs, strict=True):
            wanted = c.compute if kind == "compute" else kind_of(getattr(torch, kind))
            names[name] = c.read(source, here.get(source) if isinstance(source, Tensor) else None, wanted)
        for condition in row["requires"]:
            holds = c.core.nonzero(evaluate(c.core, parse(condition)[0], names, c.compute))
            c.core.fault_unless(holds, c_abi.ATALLA_ISA_FAULT_ELEMENT)
        results = [evaluate(c.core, tree, names, c.compute) for tree in parse(text)]
        for out, result in zip(c.outputs, results, strict=True):
            out.store(here[out], c.core.convert(result, kind_of(out.form.dtype)))


def _scalar_kind(compute: str) -> str:
    return "i" if compute == "b" else compute


def copy(c: Context) -> None:
    """Of equal dtypes the bits."""
    (out,), (x, *_) = c.outputs, c.inputs
    with out.each(range(out.rank), [out, x]) as (target, source):
        if out.form == x.form:
            out.copy_element(target, source)
        elif out.kind == "f" and x.kind in "il" and not out.form.raw:
            out.store(target, c.core.new("stbf.s", "f", x.load(source)), is_bf16=True)
        else:
            out.store(target, x.load(source))


def cat(c: Context) -> None:
    """The bits of each input into its range of the result."""
    (out,), dim = c.outputs, c.parameter("dim")
    start = out.start
    for x in c.inputs:
        with x.each(range(x.rank), {out: start, x: x.start}) as (target, source):
            out.copy_element(target, source)
        start = out.at(start, dim, x.size(dim))


def fill(c: Context) -> None:
    (out,), (value, *_) = c.outputs, c.inputs
    stored = c.core.convert(value, out.kind)
    with out.each(range(out.rank), [out]) as (target,):
        out.store(target, stored)


def arange(c: Context) -> None:
    """start + i step, each element from its number."""
    (out,), (start, step) = c.outputs, c.inputs
    with out.each([0], [out]) as (target,):
        number = c.core.new("srl.s", "i", target - out.start, c.core.bits(0))
        index = c.core.divide(number, out.stride(0))
        out.store(target, start + index * step)


ROUTINES = {"copy": copy, "cat": cat, "fill": fill, "arange": arange}
