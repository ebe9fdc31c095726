# SPDX-License-Identifier: BSD-3-Clause
"""Calls of the C++ functions that turn an op's arguments into launches.

A table names such a function, which then takes the op's own arguments, or has a call: `pool(kernel, 2, self, out)`. An
argument of a call is an argument of the op, `...` (all of them; `name=value` behind it replaces one), `kernel` (the
entry's first), or an expression of C++, with texts in single quotes. A function with a call gets an optional tensor as
a tensor, undefined where it is absent. The first entry that calls a function declares it; others rely on the
conversions of C++.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_LITERALS = (
    (r"-?\d+", "int64_t"),
    (r"true|false", "bool"),
    (r'"[^"]*"', "const char*"),
    (r"(\w+)::k\w+", r"\1"),
)


_OPTIONAL = "const ::std::optional<at::Tensor> &"


class CallError(Exception):
    """A call that the op's arguments do not fit."""


def for_op(text: str, op: str) -> str:
    """A text of a table for one of its ops: `{op}` is the name without overload, `special_` and the in-place mark."""
    return text.replace("{op}", op.split(".")[0].removeprefix("special_").removesuffix("_"))


@dataclass(frozen=True)
class Call:
    function: str
    arguments: tuple[str, ...] | None = None  # None: those of the op, in their order
    replaced: Mapping[str, str] = field(default_factory=dict)  # values of arguments of the op in `...`

    def filled(self, names: list[str]) -> list[str]:
        """The arguments of the call, of an op with these arguments."""
        own = [self.replaced.get(name, name) for name in names]
        return own if self.arguments is None else [v for a in self.arguments for v in (own if a == "..." else [a])]

    def takes_tensors(self) -> bool:
        """Whether optional tensors are given as tensors."""
        return self.arguments is not None and "::" not in self.function

    def value(self, name: str, type_: str) -> str:
        """What is given for this argument of the op."""
        return f"{name}.value_or(at::Tensor())" if type_ == _OPTIONAL and self.takes_tensors() else name

    def uses(self, name: str) -> bool:
        """Whether a call that is written out names this argument."""
        return any(re.search(rf"\b{name}\b", a) for a in (*(self.arguments or ()), *self.replaced.values()))

    def is_given(self, name: str) -> bool:
        """Whether the function gets this argument of the op."""
        return self.arguments is None or "..." in self.arguments or self.uses(name)

    def headers(self) -> set[str]:
        """Headers of the ATen functions that the arguments call."""
        text = " ".join((self.function + "(", *(self.arguments or ()), *self.replaced.values()))
        return {f"ATen/ops/{name}.h" for name in re.findall(r"\bat::(\w+?)(?:_out)?\(", text)}


def _split(text: str) -> list[str]:
    """The parts between commas that are outside of brackets and texts."""
    parts, depth, quoted = [""], 0, False
    for c in text:
        quoted ^= c == '"'
        depth += 0 if quoted else (c in "({") - (c in ")}")
        if c == "," and depth == 0 and not quoted:
            parts.append("")
        else:
            parts[-1] += c
    return [part.strip() for part in parts]


def parse(text: str) -> Call:
    found = re.fullmatch(r"([\w:]+)(?:\((.*)\))?", text.replace("'", '"'), re.S)
    if found is None:
        raise CallError(f"expected a function or a call, got `{text}`")
    if found[2] is None:
        return Call(found[1])
    parts = _split(found[2])
    replaced = {m[1]: m[2] for part in parts if (m := re.fullmatch(r"(\w+)=(.*)", part, re.S))}
    return Call(found[1], tuple(p for p in parts if not re.match(r"\w+=", p)), replaced)


def type_of(argument: str, types: Mapping[str, str]) -> str:
    if argument in types:
        return types[argument]
    if argument.startswith("{") and (members := argument.strip("{}").split(",")):
        return f"std::initializer_list<{type_of(members[0].strip(), types)}>"
    for pattern, name in _LITERALS:
        if found := re.fullmatch(pattern, argument):
            return found.expand(name)
    raise CallError(f"the op has no argument `{argument}`")


class Declarations:
    """C++ declarations by function and number of arguments: an overload set has one of each number."""

    def __init__(self) -> None:
        self.known: dict[tuple[str, int], str] = {}

    def add(self, call: Call, returned: str, types: Mapping[str, str], names: list[str]) -> str:
        """The declaration of the called function, "" for one of ATen."""
        arguments = call.filled(names)
        key = (call.function, len(arguments))
        if "::" in call.function:
            return ""
        if key not in self.known:
            given = [type_of(a, types) for a in arguments]
            declared = ", ".join("const at::Tensor &" if call.takes_tensors() and t == _OPTIONAL else t for t in given)
            self.known[key] = f"{returned} {call.function}({declared});"
        return self.known[key]
