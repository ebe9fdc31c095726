# SPDX-License-Identifier: BSD-3-Clause
"""Statements for pointwise ops, from their schemas: every pointwise op of the native op list, and its in-place form."""

from __future__ import annotations

from functools import lru_cache

import torch

from torch_atalla import ops

from .generator import Builder, Template, template
from .statements import Statements
from .texts import NESTED, PLAIN, each, shared, texts, written

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
        return g.operand("integers", 0)
    return g.operand("floats" if needs_floats or g.chance(0.85) else "all", 0)


def register() -> None:
    for key in pointwise_ops_table():
        weight = 0.1 if any(part in key for part in RARE) else 0.5
        template(key, weight=weight)(_write(key))


OPERATORS = ("+", "-", "*", "/", "//", "%", "<", ">=", "==", "!=", "&", "|", "^")


@template(*(f"operator {sign}" for sign in OPERATORS), weight=1.5)
def binary_operator(g: Builder) -> str:
    sign = g.name.split()[-1]
    first = g.operand("integers" if sign in "&|^" else "all", 0)
    if g.chance(0.3):
        number = g.number() if sign not in "&|^" else "3"
        if sign in ("/", "//", "%") and float(number) == 0:
            number = "2"
        return f"{number} {sign} {first}" if g.chance(0.2) and sign in "+-*" else f"{first} {sign} {number}"
    if sign in ("/", "//", "%"):
        return f"{first} {sign} ({g.partner(first)}.abs() + 1)"
    return f"{first} {sign} {g.partner(first, g.value(first).dtype if sign in '&|^' else None)}"


texts(
    "F.hardtanh({x}, -0.5, 1.0)",
    *each("F.{op}({x})", "logsigmoid", "relu6", "selu", "celu"),
    *each("torch.{op}({x}.abs() + 0.5)", "rsqrt", "log"),
    "torch.exp({x}.clamp(-3, 2))",
    "torch.pow({x}.abs() + 0.5, 1.5)",
    "torch.pow(2, {x}.clamp(-3, 3))",
    *each("torch.{op}({x})", "square", "isfinite", "isinf"),
    "torch.nan_to_num({x}, 0.5)",
    "torch.ops.aten.clamp.Tensor({x}, {x} * 0.5, None)",
    "{x} * 2 + 1",
    "{x} + {y}",
    "{x} * {y} - {x}",
    "F.gelu({x}) * torch.tanh({y})",
    "F.glu(torch.cat([{x}, {x}], -1))",
    "({x} > 0).to({x}.dtype)",
    *each("{x}.{op}()", "float", "double", "bool"),
    *each("{x}.to(torch.{op})", "float16", "bfloat16"),
    "{x}.clamp(-8, 8).to(torch.int32)",
)

texts(
    *each("torch.where({bools}, {x}, {op})", "{partner}", "{number}"),
    *each("{x}.masked_fill({bools}, {op})", "0", "{k}", "{x}.max()"),
    "{x}.masked_scatter({bools}, {x} * 2)",
    weight=1.0,
    dtypes="real",
    least=0,
    tables=PLAIN,
)
texts(
    *each("torch.ops.aten.bitwise_{op}.Scalar({x}, 3)", "and", "or", "xor"),
    *each("torch.ops.aten.bitwise_{op}.Scalar_Tensor(3, {x})", "and", "or", "xor"),
    weight=0.15,
    dtypes="integers",
    least=0,
    tables=PLAIN,
)
texts(
    "torch.ops.aten.div.Scalar_mode({x}, 2, rounding_mode='floor')",
    *each("torch.ops.aten.{op}.Scalar({x}, 3)", "fmod", "remainder"),
    "torch.ops.aten.remainder.Scalar_Tensor(3, {x}.abs() + 1)",
    "F.binary_cross_entropy({x}.sigmoid(), {x}.sigmoid())",
    weight=0.15,
    least=0,
)
texts("F.prelu({x}, {channels})", weight=0.6, tables=PLAIN)
texts(  # which other programs have from the schemas
    *each("torch.{op}({x})", "relu", "sigmoid"),
    "torch.where({x} > 0, {x}, {y})",
    "torch.maximum({x}, {y})",
    tables=NESTED,
)


IN_PLACE = (
    *each("{x}.{op}_()", "sigmoid", "relu", "zero", "neg", "tanh"),
    *each("{x}.{op}_({number})", "mul", "sub", "fill", "select(0, 0).mul", "unsqueeze(0).add"),
    "{x}[1:].mul_({number})",
    *each("{x}{op} = {number}", "[0]", "[..., :1]", "[..., 0]", "[..., -1]", ".transpose(0, -1)[0]", ".view(-1)[::2]"),
    *each("{x}.{op}_({into})", "add", "copy"),
    "{x}.add_({into}, alpha=0.5)",
    "{x}.div_({into}.abs() + 1)",
    "{x}.lerp_({into}, 0.5)",
    "{x}.clamp_(-1, 1)",
    "{x}.exp_().clamp_(max=9.0)",
    "{x}.masked_fill_({x} > 0, 0.5)",
    "{x}[:{s}] += 1",
    "{x}[::2].zero_()",
    "{x}.narrow({d}, {n} // 2, 1).add_({n})",
    "{x}.flatten()[:1].fill_({number})",
    "{x}.flatten(-2).add_(1)",
)


@shared(*(f"{text};" for text in IN_PLACE), weight=0.3)
def in_place(g: Statements) -> str | None:
    x = g.writable(lambda v: v.is_floating_point() and v.ndim > ("(-2" in g.name))
    return None if x is None else written(g, x)


texts("{x} + {buffer}", weight=0.2, tables=PLAIN)
texts(
    "{buffer}.add_({x});",
    "{buffer}.mul_(0.5).add_({x}, alpha=0.5);",
    "{buffer}[..., :1].copy_({x}[..., -1:]);",
    weight=0.35,
    tables=PLAIN,
)
