# SPDX-License-Identifier: BSD-3-Clause
"""A graph while its sizes that depend on data become bounds: new nodes, counts and assertions."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import reduce
from itertools import pairwise
from typing import Any

import sympy
import torch
from sympy.logic import boolalg
from torch._guards import detect_fake_mode
from torch.export.graph_signature import OutputKind, OutputSpec, TensorArgument
from torch.fx.node import map_arg
from torch.utils._pytree import tree_leaves, tree_map_only
from torch.utils._sympy import functions
from torch.utils._sympy.value_ranges import bound_sympy

from ...program.sizes import limits
from .expressions import OPERATIONS, is_growing

aten = torch.ops.aten
Node = torch.fx.Node
# Ops whose result has as many elements as a mask has true ones, or an input has distinct ones.
MAKERS = (
    *(aten.index.Tensor, aten.nonzero.default, aten.masked_select.default, aten._unique2.default),
    *(aten.unique_consecutive.default, aten.unique_dim.default),
)
READS = (aten._local_scalar_dense.default, aten.item.default)
EVERY = 1 << 12  # a bound up to which expressions are evaluated for every count
MOST = 1 << 24  # the largest bound of a number, which would be one of memory
Numbers = (torch.SymInt, torch.SymFloat, torch.SymBool)
_DTYPES = {bool: torch.bool, int: torch.int64, float: torch.float64}  # as Python computes
RESULT_SIZES = "result_sizes"  # key of a graph's meta: (result, dimension, number of its count), of counts as results


class Declined(Exception):
    """A rule cannot keep padding out of results."""


def makes_size(node: Node) -> bool:
    """Whether the op makes a tensor whose size is a count of true elements, or a number, or writes such a tensor."""
    if node.target in READS:
        return bool(node.users)
    indices: Any = node.args[1:2]
    if node.target is aten.index_put.default:
        values: Any = node.args[2]
        one = all(type(size) is int and size == 1 for size in values.meta["val"].shape)
        return any(map(is_mask, indices[0])) and not one
    return node.target in MAKERS and (node.target is not aten.index.Tensor or any(map(is_mask, indices[0])))


def is_mask(index: Any) -> bool:
    return isinstance(index, Node) and index.meta["val"].dtype in (torch.bool, torch.uint8)


class Rewrite:
    """One graph while it is rewritten. New nodes are added beside the old ones, which go at the end."""

    def __init__(self, program: torch.export.ExportedProgram, rule_of: Callable[[Any], Any]) -> None:
        self.program, self.graph, self.rule_of = program, program.graph, rule_of
        self.mode: Any = detect_fake_mode([node.meta.get("val") for node in self.graph.nodes])
        self.counts: dict[sympy.Basic, Node] = {}  # symbol -> tensor of no dimensions
        self.bounds: dict[sympy.Basic, sympy.Basic] = {}  # numbers, or expressions of the sizes of inputs
        self.sizes: dict[sympy.Basic, Node] = {}  # nodes of sizes that the inputs determine
        self.env: dict[Node, Any] = {}  # old node -> new node, or several of an op with several results
        self.gone: set[Node] = set()  # old nodes that have been rewritten
        self.added: list[Node] = []
        self.node: Node  # the old node that is being rewritten
        self.device = torch.device("cpu")

    # The pass.

    def without_new_conditions(self) -> AbstractContextManager[None]:
        """A decision that would hold for some sizes of inputs alone is an error of the rule that takes it. Where all
        sizes of inputs are known, PyTorch decides about symbols that it makes for a moment."""
        inputs = [node.meta.get("val") for node in self.graph.find_nodes(op="placeholder")]
        sizes = [size for value in inputs if isinstance(value, torch.Tensor) for size in value.shape]
        dynamic = any(isinstance(value, Numbers) for value in [*inputs, *sizes])
        return self.mode.shape_env.error_on_new_guards() if dynamic else nullcontext()

    def run(self) -> None:
        for node in list(self.graph.nodes):
            if node.op == "call_function" and self.is_affected(node):
                self.node, self.device = node, _device(node, self.device)
                with self.graph.inserting_before(node):
                    self.rewrite(node)
                self.gone.add(node)
        self.finish()

    def is_affected(self, node: Node) -> bool:
        return makes_size(node) or any(arg in self.gone for arg in node.all_input_nodes)

    def rewrite(self, node: Node) -> None:
        if node.target in READS:
            self.read(node)
        elif node.target is aten._assert_scalar.default:
            self.require(self.expr(node.args[0]), str(node.args[1]))
        elif not is_number(node) and node.target is not aten._assert_tensor_metadata.default:
            rule = self.rule_of(node.target)
            if rule is None:
                raise Declined(f"no rule keeps {node.target} ({node.name}) within the count")
            try:
                made = rule(self, node)
            except (RuntimeError, ValueError, IndexError) as error:
                reason = str(error).strip().splitlines()
                raise Declined(
                    f"{node.target} ({node.name}) of the bound: {reason[0] if reason else error!r}"
                ) from None
            self.env[node] = self.checked(made)

    def finish(self) -> None:
        """Puts the new nodes in the places of the old ones."""
        output = self.graph.output_node()
        with self.graph.inserting_before(output):
            counts = self.result_counts(output)
        for spec in self.program.graph_signature.output_specs:
            for node, new in self.env.items():
                if isinstance(new, Node) and getattr(spec.arg, "name", None) == node.name:
                    spec.arg.name = new.name
        results: Any = map_arg(output.args[0], lambda node: self.env.get(node, node))
        output.args = ((*results, *counts),)
        for count in counts:
            spec = OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(count.name), None)
            self.program.graph_signature.output_specs.append(spec)
        for node in reversed(list(self.graph.nodes)):
            if node in self.gone:
                self.graph.erase_node(node)
        self.program.graph_module.recompile()

    def result_counts(self, output: Node) -> list[Node]:
        """Further results: the sizes of those that depend on data."""
        results: Any = output.args[0]
        first = len(results) - len(self.program.graph_signature.user_outputs)
        tensors = [node for node in results[first:] if isinstance(node, Node) and not is_number(node)]
        if any(node in self.gone and is_number(node) for node in output.all_input_nodes):
            raise Declined("a result of the program is a number that depends on data")
        if any(self.extents(node) for node in results[:first]):
            raise Declined("a buffer gets a size that depends on data")
        sizes: list[sympy.Basic] = []
        places: list[tuple[int, int, int]] = []
        for number, node in enumerate(tensors):
            for dim, expr in self.extents(node).items() if node in self.env else ():
                if expr not in sizes:
                    sizes.append(expr)
                places.append((number, dim, sizes.index(expr)))
        self.program.graph_module.meta[RESULT_SIZES] = tuple(places)
        counts = [self.call(aten.clone.default, self.on_chip(expr)) for expr in sizes]
        for node in counts:
            node._rename("count")  # of an output of the file
        return counts

    def undo(self) -> None:
        for node in reversed(self.added):
            self.graph.erase_node(node)

    def checked(self, made: Any) -> Any:
        """The new node, if its sizes are those of the old one with the bounds for the counts."""
        old, new = tree_leaves(self.node.meta["val"]), [node.meta["val"] for node in tree_leaves(made)]
        for before, after in zip(old, new, strict=True):
            if not isinstance(before, torch.Tensor):
                continue
            wanted = [self.at_bound(size) for size in before.shape]
            if self.exprs(wanted) != self.exprs(after.shape) or before.dtype != after.dtype:
                raise Declined(
                    f"{self.node.target} ({self.node.name}) of the bound has {list(after.shape)}, not {wanted}"
                )
        return made

    # Numbers.

    def is_number_of_data(self, value: Any) -> bool:
        return isinstance(value, Node) and is_number(value) and bool(self.free(value.meta["val"]))

    def free(self, value: Any) -> set[Any]:
        """The counts that a size or a number depends on."""
        if not isinstance(value, Numbers):
            return set()
        env = value.node.shape_env
        symbols = env.replace(value.node.expr).free_symbols
        return {symbol for symbol in symbols if symbol in self.counts or env.is_unbacked_symint(symbol)}

    def expr(self, value: Any) -> sympy.Basic:
        value = value.meta["val"] if isinstance(value, Node) else value
        if not isinstance(value, Numbers):
            return sympy.sympify(value)
        return value.node.shape_env.replace(value.node.expr)

    def exprs(self, sizes: Iterable[Any]) -> list[sympy.Basic]:
        """In a form in which equal sizes are equal."""
        return [self.expr(size).expand() for size in sizes]

    def at_bound(self, value: Any) -> Any:
        """The largest value of a size: an int, or a SymInt of the sizes of inputs."""
        if type(value) is int:
            return value
        expr = self.expr(value)
        if not self.free(value):
            return int(expr) if expr.is_Integer else value
        if self.free(value) - self.bounds.keys():
            raise Declined(f"the size {expr} has no bound (torch._check(size <= 8) declares one)")
        largest = expr.xreplace(self.bounds)
        if not is_growing(expr):
            values = self.every(expr)
            if not values or any(before > after for before, after in pairwise(values)):
                raise Declined(f"the size {expr} may become smaller when a count grows")
        least, most = self.limits(largest)
        return most if least == most else self.symint(value.node.shape_env, largest)

    def limits(self, expr: sympy.Basic) -> tuple[int, int]:
        """The least and the largest value of a size that the inputs determine."""
        if expr.is_Integer:
            return int(expr), int(expr)
        return limits(bound_sympy(expr, self.mode.shape_env.var_to_range))

    def symint(self, env: Any, expr: sympy.Basic) -> torch.SymInt:
        return env.create_symintnode(expr, hint=int(expr.xreplace(env.backed_var_to_val)))

    def size_node(self, expr: sympy.Basic) -> Any:
        """A size that the inputs determine, as a node of the graph or a number."""
        if expr.is_Integer:
            return int(expr)
        if expr not in self.sizes:
            self.sizes[expr] = self.size_of_input(expr) or self.computed_size(expr)
        return self.sizes[expr]

    def computed_size(self, expr: sympy.Basic) -> Node:
        function = OPERATIONS.get(expr.func, (None, None))[1]
        if function is None:
            raise Declined(f"no input has the size {expr}")
        sizes = [self.size_node(arg) for arg in expr.args]
        return reduce(lambda made, size: self.call(function, made, size), sizes)

    def on_chip(self, expr: sympy.Basic) -> Node:
        """A tensor of no dimensions with the value of the expression: int64, float64, or bool for a condition."""
        if expr in self.counts:
            return self.counts[expr]
        if isinstance(expr, boolalg.BooleanAtom) or expr.is_Integer or expr.is_Float:
            value: Any = float(expr) if expr.is_Float else int(expr) if expr.is_Integer else bool(expr)
            return self.call(aten.full.default, [], value, dtype=_DTYPES[type(value)], device=self.device)
        if expr.is_symbol and not self.mode.shape_env.is_unbacked_symint(expr):  # the size of an input
            return self.call(aten.full.default, [], self.size_node(expr), dtype=torch.int64, device=self.device)
        operands = [self.on_chip(arg) for arg in expr.args]
        if isinstance(expr, sympy.Not):
            return self.call(aten.logical_not.default, *operands)
        if isinstance(expr, (functions.FloorDiv, functions.CleanDiv)):
            return self.call(aten.div.Tensor_mode, *operands, rounding_mode="floor")
        op = OPERATIONS.get(expr.func, (None, None))[0]
        if op is None:
            raise Declined(f"the size {expr} is not computed on the chip")
        return reduce(lambda value, operand: self.call(op, value, operand), operands)

    def size_of_input(self, expr: sympy.Basic) -> Node | None:
        """A dimension of an input of that size, or of a multiple of it, divided."""
        found: tuple[int, Node, int] | None = None
        for node in self.graph.find_nodes(op="placeholder"):
            value = node.meta.get("val")
            for dim, size in enumerate(value.shape if isinstance(value, torch.Tensor) else ()):
                factor = sympy.simplify(self.expr(size) / expr) if isinstance(size, torch.SymInt) else sympy.Integer(0)
                if factor.is_Integer and factor > 0 and (found is None or factor < found[0]):
                    found = int(factor), node, dim
        if found is None:
            return None
        factor, node, dim = found
        size = self.call(aten.sym_size.int, node, dim)
        return size if factor == 1 else self.call(operator.floordiv, size, factor)

    def require(self, condition: sympy.Basic, message: str) -> None:
        """Stops the program on the chip if a condition on counts does not hold."""
        values = [condition] if condition.is_Boolean and not condition.free_symbols else self.every(condition)
        if values and all(value == sympy.true for value in values):
            return
        self.stop_unless(self.on_chip(condition), message)

    def every(self, expr: sympy.Basic) -> list[Any]:
        """The values of an expression of one count, from 0 to the bound; nothing if they are not known or too many."""
        symbols = list(expr.free_symbols)
        bound = self.bounds.get(symbols[0]) if len(symbols) == 1 else None
        if bound is None or (most := self.limits(bound)[1]) >= EVERY:
            return []
        return [expr.xreplace({symbols[0]: sympy.Integer(value)}) for value in range(most + 1)]

    def add_count(self, size: Any, count: Node, most: Any) -> Any:
        """Learns that a size is a count, which is at most `most`, an int or a SymInt. Returns the bound."""
        expr = self.expr(size)
        if expr.is_Integer:  # the program has an assertion that fixes it
            bound = int(expr)
        elif not isinstance(expr, sympy.Symbol):
            raise Declined(f"the size {expr} is no symbol")
        else:
            declared = _declared(size, expr)
            bound = most if self.limits(self.expr(most))[1] <= declared else declared
            self.counts[expr], self.bounds[expr] = count, self.expr(bound)
        if bound is not most or expr.is_Integer:
            compare = aten.eq.Scalar if expr.is_Integer else aten.le.Scalar
            self.stop_unless(self.call(compare, count, bound), f"expected a mask of at most {bound} true elements")
        return bound

    def read(self, node: Node) -> None:
        """A number that the program reads from a tensor stays on the chip. It is a size if the program declares its
        bounds."""
        source, number = node.args[0], node.meta["val"]
        assert isinstance(source, Node)
        expr = self.expr(number)
        if not expr.is_symbol:
            raise Declined(f"{node.name} ({node.target}) reads a {source.meta['val'].dtype}")
        value = self.call(aten.view.default, self.env.get(source, source), [])
        is_integer = isinstance(number, torch.SymInt)
        value = self.call(aten._to_copy.default, value, dtype=torch.int64 if is_integer else torch.float64)
        if is_integer:
            if number.node.shape_env.var_to_range[expr].lower >= 0 and _declared(number, expr) < MOST:
                most = _declared(number, expr)
                self.bounds[expr] = sympy.Integer(most)
                self.stop_unless(self.call(aten.ge.Scalar, value, 0), "a size is negative")
                self.stop_unless(self.call(aten.le.Scalar, value, most), "a size is above its bound")
        self.counts[expr] = value

    def stop_unless(self, condition: Node, message: str) -> None:
        self.call(aten._assert_async.msg, condition, message)

    # Nodes.

    def call(self, target: Any, *args: Any, **kwargs: Any) -> Any:
        """A new node, or one for each result of an op with several. Arguments may be sizes."""
        args, kwargs = tree_map_only(torch.SymInt, lambda size: self.size_node(self.expr(size)), (args, kwargs))
        node = self.graph.call_function(target, args, kwargs)
        self.added.append(node)

        def of(arg: Node) -> Any:
            return arg.meta["val"]

        with self.mode, torch.no_grad():
            value = _meta_function(target)(*map_arg(args, of), **map_arg(kwargs, of))
        node.meta = {**self.node.meta, "val": value}
        if not isinstance(value, (tuple, list)):
            return node
        parts = []
        for number, part in enumerate(value):
            item = self.graph.call_function(operator.getitem, (node, number))
            item.meta = {**self.node.meta, "val": part}
            self.added.append(item)
            parts.append(item)
        return tuple(parts)

    def new(self, value: Any) -> Any:
        """What an argument of the old node is for the new one: sizes become those of the bounds."""

        def mapped(item: Any) -> Any:
            if not isinstance(item, Node):
                return item
            if item in self.gone and is_number(item):
                return self.at_bound(item.meta["val"])
            return self.env.get(item, item)

        return map_arg(value, mapped)

    def extents(self, node: Any) -> dict[int, sympy.Basic]:
        """The dimensions of an old node whose sizes depend on data."""
        value = node.meta["val"] if isinstance(node, Node) else None
        if not isinstance(value, torch.Tensor):
            return {}
        return {dim: self.expr(size) for dim, size in enumerate(value.shape) if self.free(size)}

    def invalid(self, old: Node, dims: Iterable[int]) -> Node | None:
        """Where the padding of the dimensions is: a mask that broadcasts to the new tensor. None: there is none."""
        found: Node | None = None
        ndim = old.meta["val"].ndim
        for dim, expr in self.extents(old).items():
            if dim not in dims:
                continue
            bound = self.at_bound(old.meta["val"].shape[dim])
            places = self.call(aten.arange.start_step, 0, bound, 1, dtype=torch.int64, device=self.device)
            mask = self.call(aten.ge.Tensor, places, self.on_chip(expr))
            mask = self.call(aten.view.default, mask, [bound if d == dim else 1 for d in range(ndim)])
            found = mask if found is None else self.call(aten.logical_or.default, found, mask)
        return found

    def filled(self, old: Node, dims: Iterable[int], value: Any) -> Node:
        """The new tensor with a value in the padding of the dimensions."""
        mask = self.invalid(old, list(dims))
        new = self.env.get(old, old)
        return new if mask is None else self.call(aten.masked_fill.Scalar, new, mask, value)


def is_number(node: Node) -> bool:
    return isinstance(node.meta.get("val"), (int, float, *Numbers))


def _meta_function(target: Any) -> Any:
    """What computes the metadata of an op's results. A kernel in C++ that upstream composes of other ops would fix
    dynamic sizes to those of the example, so that upstream's function in Python goes before it."""
    composite = torch._C.DispatchKey.CompositeExplicitAutograd
    if isinstance(target, torch._ops.OpOverload) and target.has_kernel_for_dispatch_key(composite):
        from torch._decomp import meta_table

        return meta_table.get(target, target)
    return target


def _declared(size: torch.SymInt, symbol: Any) -> int:
    """The largest value that the program declares for a size."""
    return limits(size.node.shape_env.var_to_range[symbol])[1]


def _device(node: Node, before: torch.device) -> torch.device:
    """Where the tensors of a node are."""
    values = tree_leaves([arg.meta.get("val") for arg in node.all_input_nodes])
    return next((value.device for value in values if isinstance(value, torch.Tensor)), before)
