# SPDX-License-Identifier: BSD-3-Clause
"""Statements for pointwise ops, from their schemas: every pointwise op of the native op list, and its in-place form."""

from __future__ import annotations

from functools import lru_cache

import torch

from torch_atalla import ops

from .generator import Builder, Template, broadcasts, template

# Rare in models, or so steep that most results are infinite.
RARE = ("special_", "polygamma", "igamma", "digamma", "lgamma", "zeta", "backward", "erfinv", "nextafter", "gcd", "lcm")
# The CPU's own float64 values are wrong: airy_ai is 3e-6 off below -2.09 (test/support/xfails.py), and the derivative
# of hardsigmoid has 1/6 in float32. It takes the gradient of logsigmoid from a buffer, which the device leaves empty.
LEFT_OUT = (
    "aten.special_airy_ai.default",
    "aten.hardsigmoid_backward.default",
    "aten.log_sigmoid_backward.default",
)
NO_NANS = ("copysign", "signbit")  # the sign of a NaN would count
IN_FLOAT32 = ("polygamma",)  # the CPU's trigamma has 9 digits also in float64
TAKES_INTEGERS = ("bitwise", "shift", "gcd", "lcm")
NEEDS_FLOATS = ("copysign", "logit", "hardshrink", "softshrink", "_prelu", "lerp", "gelu", "backward", "heaviside")


@lru_cache
def pointwise_ops_table() -> dict[str, dict]:
    """Functional pointwise overloads that are described by the table alone, by their keys ("aten.add.Tensor")."""
    return {
        key: entry
        for key, entry in ops.support().items()
        if entry["family"] == "pointwise"
        and not entry.get("adaptor")
        and not schema_of(key).is_mutable
        and key not in LEFT_OUT
    }


def schema_of(key: str) -> torch.FunctionSchema:
    _, name, overload = key.split(".")
    return getattr(getattr(torch.ops.aten, name), overload)._schema


def _scalar(g: Builder, name: str, kind: str) -> str:
    if kind == "bool":
        return str(g.chance(0.5))
    if kind == "int":
        return str(g.rng.randint(0, 2))
    if kind == "float" and name in ("lambd", "weight", "eps"):
        return g.rng.choice(["0.25", "0.5", "0.375"])  # beyond 0.5 the CPU's logit has two answers
    if name == "alpha":
        return g.rng.choice(["1", "2", "1", "1"])
    return g.number()


def _write(key: str) -> Template:
    _, name, overload = key.split(".")
    schema, entry = schema_of(key), pointwise_ops_table()[key]

    def make(g: Builder) -> str | None:
        given: list[str] = []
        first = ""
        by_name = False  # after an argument that is left out
        for argument in schema.arguments:
            kind = str(argument.type)
            if kind == "Tensor":
                text = _operand(g, name, first)
                first = first or text
                if any(part in name for part in NO_NANS):
                    text += ".nan_to_num()"
                if name in IN_FLOAT32:
                    text += ".float()"
            elif argument.has_default_value() and kind != "str" and g.chance(0.4):
                by_name = True
                continue
            elif kind == "str" or "str" in kind:
                choices = ["'floor'", "'trunc'"] if name == "div" else [repr(choice) for choice in entry["variants"]]
                text = g.rng.choice(choices)
            else:
                text = _scalar(g, argument.name, kind.removeprefix("Optional[").removesuffix("]"))
            given.append(f"{argument.name}={text}" if argument.kwarg_only or by_name else text)
        return f"torch.ops.aten.{name}.{overload}({', '.join(given)})"

    return make


def _operand(g: Builder, name: str, first: str) -> str:
    """The first tensor operand, or one that goes with it."""
    needs_floats = any(part in name for part in NEEDS_FLOATS)
    if first and name == "gelu_backward":  # oneDNN writes to address 0 where sizes differ
        return f"(0.5 * {first} + 0.1)"
    if first:
        return g.partner(first, g.value(first).dtype if needs_floats else None)
    if any(part in name for part in TAKES_INTEGERS):
        return g.integers()
    return g.floats() if needs_floats or g.chance(0.85) else g.tensor()


def register() -> None:
    for key in pointwise_ops_table():
        weight = 0.1 if any(part in key for part in RARE) else 0.5
        template(key, weight=weight)(_write(key))


OPERATORS = ("+", "-", "*", "/", "//", "%", "<", ">=", "==", "!=", "&", "|", "^")


@template(*(f"operator {sign}" for sign in OPERATORS), weight=1.5)
def binary_operator(g: Builder) -> str:
    sign = g.name.split()[-1]
    first = g.integers() if sign in "&|^" else g.tensor(lambda v: v.dtype is not torch.bool)
    if g.chance(0.3):
        number = g.number() if sign not in "&|^" else "3"
        if sign in ("/", "//", "%") and float(number) == 0:
            number = "2"
        return f"{number} {sign} {first}" if g.chance(0.2) and sign in "+-*" else f"{first} {sign} {number}"
    if sign in ("/", "//", "%"):
        return f"{first} {sign} ({g.partner(first)}.abs() + 1)"
    return f"{first} {sign} {g.partner(first, g.value(first).dtype if sign in '&|^' else None)}"


ACTIVATIONS = (
    "F.relu({x})",
    "F.gelu({x})",
    "F.gelu({x}, approximate='tanh')",
    "F.silu({x})",
    "F.elu({x}, 0.5)",
    "F.leaky_relu({x}, 0.2)",
    "F.hardswish({x})",
    "F.hardsigmoid({x}.float())",
    "F.hardtanh({x}, -0.5, 1.0)",
    "F.softplus({x})",
    "F.mish({x})",
    "F.logsigmoid({x})",
    "F.relu6({x})",
    "F.selu({x})",
    "F.celu({x})",
    "F.threshold({x}, 0.1, 2.0)",
    "torch.sigmoid({x})",
    "torch.tanh({x})",
    "torch.rsqrt({x}.abs() + 0.5)",
    "torch.exp({x}.clamp(-3, 2))",
    "torch.log({x}.abs() + 0.5)",
    "torch.erf({x})",
    "torch.sin({x})",
    "torch.pow({x}.abs() + 0.5, 1.5)",
    "torch.pow({x}, 2)",
    "torch.pow(2, {x}.clamp(-3, 3))",
    "torch.square({x})",
    "torch.nan_to_num({x}, 0.5)",
    "torch.isfinite({x})",
    "torch.isinf({x})",
    "torch.clamp({x}, max=1.0)",
    "torch.ops.aten.clamp.Tensor({x}, {x} * 0.5, None)",
    "F.glu(torch.cat([{x}, {x}], -1))",
    "{x}.float()",
    "{x}.to(torch.float16)",
    "{x}.to(torch.bfloat16)",
    "{x}.double()",
    "{x}.clamp(-8, 8).to(torch.int32)",
    "{x}.bool()",
)


@template(*ACTIVATIONS, weight=0.7)
def activation(g: Builder) -> str:
    return g.name.format(x=g.floats(least=1 if "glu" in g.name or "cat" in g.name else 0))


@template("torch.where", "masked_fill", "masked_fill tensor", "masked_scatter", weight=1.0)
def masked(g: Builder) -> str:
    x = g.tensor(lambda v: not v.is_complex())
    mask = g.booleans(tuple(g.value(x).shape))
    if g.name == "torch.where":
        return f"torch.where({mask}, {x}, {g.partner(x) if g.chance(0.6) else g.number()})"
    if g.name == "masked_fill":
        return f"{x}.masked_fill({mask}, {g.rng.choice(['3', '0', '1'])})"
    if g.name == "masked_fill tensor":
        return f"{x}.masked_fill({mask}, {x}.max())"
    return f"{x}.masked_scatter({mask}, {x} * 2)"


WITH_NUMBERS = (
    *(f"torch.ops.aten.bitwise_{name}.Scalar({{i}}, 3)" for name in ("and", "or", "xor")),
    *(f"torch.ops.aten.bitwise_{name}.Scalar_Tensor(3, {{i}})" for name in ("and", "or", "xor")),
    "torch.ops.aten.div.Scalar_mode({x}, 2, rounding_mode='floor')",
    "torch.ops.aten.fmod.Scalar({x}, 3)",
    "torch.ops.aten.remainder.Scalar({x}, 3)",
    "torch.ops.aten.remainder.Scalar_Tensor(3, {x}.abs() + 1)",
    "F.binary_cross_entropy({x}.sigmoid(), {x}.sigmoid())",
)


@template(*WITH_NUMBERS, weight=0.15)
def with_numbers(g: Builder) -> str:
    return g.name.format(i=g.integers() if "{i}" in g.name else "", x=g.floats() if "{x}" in g.name else "")


@template("prelu", "addcmul", "addcdiv", "lerp", "atan2", weight=0.6)
def several_operands(g: Builder) -> str:
    x = g.floats(least=1)
    y = g.same(x)
    if g.name == "prelu":
        channels = g.value(x).shape[1] if g.value(x).ndim > 1 else 1
        return f"F.prelu({x}, {g.parameter((channels,), g.value(x).dtype)})"
    if g.name == "lerp":
        return f"torch.lerp({x}, {y}, {g.rng.choice(['0.25', '0.5', y])})"
    if g.name == "atan2":
        return f"torch.atan2({x}, {y}.abs() + 1)"
    return f"torch.{g.name}({x}, {y}, {y}.abs() + 1, value={g.rng.choice(['1', '0.5'])})"


IN_PLACE = (
    "{x}.mul_({n})",
    "{x}.add_({y})",
    "{x}.add_({y}, alpha=0.5)",
    "{x}.sub_({n})",
    "{x}.sigmoid_()",
    "{x}.clamp_(-1, 1)",
    "{x}.relu_()",
    "{x}.exp_().clamp_(max=9.0)",
    "{x}.fill_({n})",
    "{x}.zero_()",
    "{x}.neg_()",
    "{x}.copy_({y})",
    "{x}.masked_fill_({x} > 0, 0.5)",
    "{x}[..., :1] = {n}",
    "{x}[..., -1] = {n}",
    "{x}[0] = {n}",
    "{x}.transpose(0, -1)[0] = {n}",
    "{x}.flatten()[:1].fill_({n})",
    "{x}.view(-1)[::2] = {n}",
    "{x}.div_({y}.abs() + 1)",
    "{x}.select(0, 0).mul_({n})",
    "{x}.tanh_()",
    "{x}.lerp_({y}, 0.5)",
    "{x}.unsqueeze(0).add_({n})",
)


@template(*(f"{text};" for text in IN_PLACE), weight=0.35)
def in_place(g: Builder) -> str | None:
    x = g.writable(lambda v: v.is_floating_point() and v.ndim > 0)
    if x is None:
        return None
    shape, dtype = g.value(x).shape, g.value(x).dtype
    y = g.pick(lambda v: v.dtype == dtype and broadcasts(v.shape, shape)) if "{y}" in g.name else ""
    if y is None:
        y = g.new_input(g.broadcastable(shape), dtype)
    return g.name.format(x=x, y=y, n=g.rng.choice(["0.5", "2.0", "-1.5", "3"]))


BUFFERS = {
    "update buffer;": "{name}.add_({x});",
    "scale buffer;": "{name}.mul_(0.5).add_({x}, alpha=0.5);",
    "write buffer;": "{name}[..., :1].copy_({x}[..., -1:]);",
    "read buffer": "{x} + {name}",
}


@template("read buffer", weight=0.2)
@template("update buffer;", "scale buffer;", "write buffer;", weight=0.35)
def use_buffer(g: Builder) -> str:
    x = g.floats(least=1)
    name = g.buffer(g.value(x).shape, g.value(x).dtype)
    return BUFFERS[g.name].format(x=x, name=name)
