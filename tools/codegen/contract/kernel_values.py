# SPDX-License-Identifier: BSD-3-Clause
"""What each element of an output is: `value` in csrc/sim/kernels.yaml. Values are checked when the chip is built; the
tests compute them in a slow loop over the elements of the output (test/kernels/kernel_reference.py).

A value is an expression of Python:

a                       the element of the operand a at the indices of its map; None if the operand is absent
x[n, c, 2 * i + 1]      the element at these indices. In the brackets, names are those of loops before operands
x.at(0, n, i - 1)       the same; the first argument if the indices are outside of the operand
x.sizes                 the sizes of an operand; x.all is all of it, for a function
y.new                   the new value of another output, at the same place
i                       the index of a loop: of a name of the output's map, or of a loop of its own. *i is a vector
K                       the size of the loop k
sum(a * b for k in K)   a loop of its own; `if` chooses among its places
stride                  a parameter. The value of an enum is a text, several slots are a vector
this(...)               the function with the last part of the kernel's name

A value of another name than those of the outputs is one that these refer to. Where a parameter has the name of an
optional operand, it stands for an absent one.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from dataclasses import dataclass

NODES = (
    *(ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Call, ast.Name, ast.Constant, ast.Subscript),
    *(ast.Tuple, ast.List, ast.Starred, ast.GeneratorExp, ast.ListComp, ast.comprehension, ast.operator, ast.unaryop),
    *(ast.boolop, ast.cmpop, ast.expr_context, ast.Attribute, ast.Slice),
)
ATTRIBUTES = ("all", "at", "new", "sizes")


class ValueTextError(ValueError):
    """Says which part of a value is wrong, and what is expected."""


@dataclass(frozen=True)
class Names:
    """What a value may refer to."""

    maps: Mapping[str, tuple[str, ...]]  # operand -> the terms of its map
    parameters: frozenset[str]
    others: frozenset[str] = frozenset()  # values beside those of the outputs

    @property
    def sizes(self) -> frozenset[str]:
        return frozenset(name for terms in self.maps.values() for name in map(loop, terms) if name)


def loop(term: str) -> str:
    """The name of the loop that a term of a map follows: `n@dim` the loop n, `*o` the loop o; empty for other terms."""
    name = term.partition("@")[0].removeprefix("*")
    return name if name.isidentifier() and not name.startswith("_") else ""


def translate(text: str, output: str, names: Names) -> str:
    """The value as Python: loops are `i_<name>`, sizes `n_<name>`, parameters `p_<name>`, operands `o_<name>`,
    calls of other values `v_<name>()`. Raises ValueTextError."""
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError as error:
        raise ValueTextError(f"the value `{text}` is no expression: {error.msg}") from None
    for node in ast.walk(tree):
        if not isinstance(node, NODES):
            raise ValueTextError(f"the value `{text}` has a {type(node).__name__}, expected a plain expression")
    bound = frozenset(filter(None, map(loop, names.maps[output])))
    return ast.unparse(_Translator(text, names, bound).visit(tree))


class _Translator(ast.NodeTransformer):
    def __init__(self, text: str, names: Names, bound: frozenset[str], *, brackets: bool = False):
        self.text, self.names, self.bound, self.brackets = text, names, bound, brackets

    def inside(self, *, bound: frozenset[str] | None = None, brackets: bool | None = None) -> _Translator:
        chosen = self.brackets if brackets is None else brackets
        return _Translator(self.text, self.names, self.bound if bound is None else bound, brackets=chosen)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        name = node.id
        if self.brackets and name in self.bound:
            return ast.Name(f"i_{name}")
        if name in self.names.maps:
            return self.element(name)
        if name in self.bound:
            return ast.Name(f"i_{name}")
        if name.isupper() and name.lower() in self.names.sizes:
            return ast.Name(f"n_{name.lower()}")
        if name in self.names.parameters:
            return ast.Name(f"p_{name}")
        if name in self.names.others:
            return ast.Call(ast.Name(f"v_{name}"), [], [])
        if name == "pi":
            return ast.Constant(math.pi)
        raise ValueTextError(
            f"the value `{self.text}`: `{name}` is no operand, parameter or size, nor a loop of the output"
        )

    def element(self, operand: str) -> ast.expr:
        indices: list[ast.expr] = []
        for term in self.names.maps[operand]:
            name = loop(term)
            if name not in self.bound:
                raise ValueTextError(
                    f"the value `{self.text}`: {operand} follows `{term}`, which is no loop there; expected "
                    f"{operand}[...] with indices"
                )
            index = ast.Name(f"i_{name}")
            indices.append(ast.Starred(index) if term.startswith("*") else index)
        element = ast.Subscript(ast.Name(f"o_{operand}"), ast.Tuple(indices))
        if operand not in self.names.parameters:
            return element
        return ast.Call(ast.Name("default"), [element, ast.Name(f"p_{operand}")], [])

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        match node.value:
            case ast.Name(id=name) if name in self.names.maps:
                indices = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
                inside = self.inside(brackets=True)
                return ast.Subscript(ast.Name(f"o_{name}"), ast.Tuple([inside.visit(index) for index in indices]))
        return self.generic_visit(node)  # type: ignore[return-value]

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr=attr) if name in self.names.maps and attr in ATTRIBUTES:
                return ast.Name(f"o_{name}") if attr == "all" else ast.Attribute(ast.Name(f"o_{name}"), attr)
        raise ValueTextError(f"the value `{self.text}`: expected .{', .'.join(ATTRIBUTES)} of an operand")

    def visit_Call(self, node: ast.Call) -> ast.expr:
        match node.func:
            case ast.Attribute(attr="at"):
                first, *indices = node.args
                rest = [self.inside(brackets=True).visit(index) for index in indices]
                return ast.Call(self.visit(node.func), [self.visit(first), *rest], [])
            case ast.Name():
                return ast.Call(node.func, [self.visit(argument) for argument in node.args], [])
        raise ValueTextError(f"the value `{self.text}` calls `{ast.unparse(node.func)}`, expected a function")

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> ast.expr:
        return self.loops(node)

    def visit_ListComp(self, node: ast.ListComp) -> ast.expr:
        return self.loops(node)

    def loops(self, node: ast.GeneratorExp | ast.ListComp) -> ast.expr:
        scope = self
        generators = []
        for part in node.generators:
            if not isinstance(part.target, ast.Name):
                raise ValueTextError(f"the value `{self.text}`: a loop has one name")
            places = ast.Call(ast.Name("places"), [scope.visit(part.iter)], [])
            scope = scope.inside(bound=scope.bound | {part.target.id})
            tests = [scope.visit(test) for test in part.ifs]
            generators.append(ast.comprehension(ast.Name(f"i_{part.target.id}"), places, tests, 0))
        return type(node)(scope.visit(node.elt), generators)
