# SPDX-License-Identifier: BSD-3-Clause
"""How far rounding to bfloat16 moves the values of a graph: the tolerance of `CompiledNetwork.check`.

Bfloat16 has 8 significant bits, so that one rounding changes a number by at most a factor 1 + 2^-9. The chip rounds the
operands and the result of every vector instruction, and the products of 32 lanes. The graph is therefore evaluated in
float64, once as it is and RUNS times with every operand and every result of every computing op changed by random
factors in 1 +- 2^-8, twice a rounding. The root mean square of the differences, element by element, is what one
rounding of everything that flows into an element does to it: it grows where large terms cancel, and needs no rule for
an op. A correct program stays within FACTOR of these spreads. It is 16: a spread from 8 runs is too small by a factor 3
with a probability below 0.1 %, roundings that agree in sign weigh more than random ones, and the chip's functions are
approximations (docs/concepts/isa-codegen.md). SHARE of the tensor's own spread is added, for elements whose runs happen
to agree: a ReLU that is 0 in each of them. FLOOR is relative to the largest value: a result that underflows.

Where the graph is not linear in its roundings (positions of maxima, comparisons, poles), the runs say nothing about a
program whose values are FACTOR spreads away. A difference beyond the tolerance is therefore looked at again, after
FAR_RUNS evaluations whose changes are FACTOR times as large: results may differ by FAR times as much as these do, since
few of them may take the decision that the program took. FAR_RUNS evaluations with small changes count as well: near a
pole, it is they that stay there. In these runs, numbers that are equal within their tolerances count as equal or not at
random, and numbers that are 0 within them become 0 at random. An element of integers, or one that turns into a NaN or
an infinity, is not determined where a run disagrees.

What follows from such a decision may be far from the exact values everywhere. Bounds can therefore be had step by step:
nodes whose values the program stored have those in what comes after them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from . import open_results
from .reference import call

RUNS, CHANGE, FACTOR, SHARE, FLOOR = 8, 2.0**-8, 16.0, 2.0, 2.0**-20
FAR_RUNS, FAR = 16, 2.0

# Ops that choose or move elements, and round nothing.
_MOVES = {
    "clone", "contiguous", "_to_copy", "cat", "stack", "where", "index", "index_select", "embedding", "gather", "relu",
    "max_pool2d_with_indices", "max_pool2d", "amax", "amin", "argmax", "argmin", "maximum", "minimum", "clamp", "neg",
    "abs", "full", "scalar_tensor", "full_like", "constant_pad_nd", "repeat", "flip", "masked_fill", "reshape",
    "_unsafe_view", "zeros_like", "ones_like", "select_scatter", "slice_scatter", "copy",
}  # fmt: skip


@dataclass
class Bound:
    """The exact values of a node, and how far results may be from them."""

    exact: torch.Tensor
    square: torch.Tensor  # sum of the squared differences
    far: torch.Tensor  # the largest difference of runs with large changes

    def tolerance(self) -> torch.Tensor:
        """Elementwise; infinite where the element is not determined."""
        spread = (self.square / RUNS).sqrt()
        if not self.exact.is_floating_point():  # an element may differ where a run differed
            return torch.where((spread > 0) | (self.far > 0), torch.inf, 0.0)
        known = torch.isfinite(self.exact) & torch.isfinite(spread)
        if not known.any():
            return torch.where(torch.isfinite(spread), self.far, torch.inf)
        whole = spread[known].square().mean().sqrt() * SHARE + self.exact[known].abs().max() * FLOOR
        return torch.maximum(spread * FACTOR + whole + 1e-30, self.far)


def _distance(value: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
    """Between elements; 0 for equal infinities and two NaNs, else infinite where one is not finite."""
    a, b = value.double(), exact.double()
    same = (a == b) | (a.isnan() & b.isnan())
    return torch.where(same, 0.0, (a - b).abs().nan_to_num(nan=torch.inf, posinf=torch.inf))


def bounds(
    graph: torch.fx.Graph,
    values: Mapping[str, torch.Tensor],
    wanted: set[str],
    stored: Mapping[str, torch.Tensor],
    seed: int = 0,
) -> dict[str, Bound]:
    """Bounds of the nodes `wanted`. values: of placeholders and attributes by name. stored: of nodes, for those that
    come after them."""
    values = {name: _wide(value) for name, value in values.items()}
    result: dict[str, Bound] = {}
    for name, value in _evaluate(graph, values, wanted, stored).items():
        none = torch.zeros(value.shape, dtype=torch.float64)
        result[name] = Bound(value, none, none.clone())
    generator = torch.Generator().manual_seed(seed)
    runs = _factors(generator, CHANGE), partial(open_results.vary, generator=generator, rounding=None)
    for _ in range(RUNS):
        for name, value in _evaluate(graph, values, wanted, stored, *runs).items():
            result[name].square += _distance(value, result[name].exact).square()
    return result


def widen(
    known: Mapping[str, Bound],
    graph: torch.fx.Graph,
    values: Mapping[str, torch.Tensor],
    stored: Mapping[str, torch.Tensor],
    seed: int = 0,
) -> None:
    """Adds runs with large changes to the bounds, in place."""
    every = bounds(graph, values, {node.name for node in graph.nodes}, stored, seed)
    rounding = open_results.rounding(graph, {name: (bound.exact, bound.tolerance()) for name, bound in every.items()})
    values = {name: _wide(value) for name, value in values.items()}
    generator = torch.Generator().manual_seed(seed + 1)
    vary = partial(open_results.vary, generator=generator, rounding=rounding)
    for change in [CHANGE * FACTOR] * FAR_RUNS + [CHANGE] * FAR_RUNS:
        for name, value in _evaluate(graph, values, set(known), stored, _factors(generator, change), vary).items():
            bound = known[name]
            bound.far = torch.maximum(bound.far, _distance(value, bound.exact) * FAR)


def _wide(value: Any) -> Any:
    return value.detach().double() if isinstance(value, torch.Tensor) and value.is_floating_point() else value


def _factors(generator: torch.Generator, change: float) -> Callable[[torch.Tensor], torch.Tensor]:
    def changed(value: torch.Tensor) -> torch.Tensor:
        factor = torch.empty(value.shape, dtype=torch.float64).uniform_(1 - change, 1 + change, generator=generator)
        return factor.mul_(value)

    return changed


def _evaluate(
    graph: torch.fx.Graph,
    values: Mapping[str, torch.Tensor],
    wanted: set[str],
    stored: Mapping[str, torch.Tensor],
    change: Callable[[torch.Tensor], torch.Tensor] | None = None,
    vary: Callable[[torch.fx.Node, Any, Any], Any] | None = None,
) -> dict[str, torch.Tensor]:
    """The values of nodes. change: of the operands and results of computing ops. vary: of the result of any op."""
    made: dict[torch.fx.Node, Any] = {}
    kept = {}
    last = {arg: node for node in graph.nodes for arg in node.all_input_nodes}
    ends: dict[torch.fx.Node, list[torch.fx.Node]] = {}
    for arg, node in last.items():
        ends.setdefault(node, []).append(arg)

    def changed(value: Any) -> Any:
        if change is None or not (isinstance(value, torch.Tensor) and value.is_floating_point()):
            return value
        return change(value)

    for node in graph.nodes:
        if node.op == "output":
            continue
        if node.op != "call_function":
            made[node] = values.get(node.name)
        else:
            computes = rounds(node)
            args, kwargs = torch.utils._pytree.tree_map(
                lambda x: torch.float64 if isinstance(x, torch.dtype) and x.is_floating_point else x,
                torch.fx.node.map_arg((node.args, node.kwargs), lambda arg: made[arg]),
            )
            if computes:
                args, kwargs = torch.utils._pytree.tree_map(changed, (args, kwargs))
            result = torch.utils._pytree.tree_map(_wide, call(node, args, kwargs, changed))  # of integers: float32
            if vary is not None:
                result = vary(node, args, result)
            made[node] = torch.utils._pytree.tree_map(changed, result) if computes else result
        if node.name in wanted and isinstance(made[node], torch.Tensor):
            kept[node.name] = made[node]
        if node.name in stored:
            made[node] = _wide(stored[node.name])
        for arg in ends.get(node, ()):
            made[arg] = None
    return kept


def rounds(node: torch.fx.Node) -> bool:
    """Whether a node computes floating-point numbers, and does not only choose or move them."""
    target: Any = node.target
    packet = getattr(target, "_schema", None)
    if packet is None or target.is_view:
        return False
    name = packet.name.split("::")[-1]
    values = torch.utils._pytree.tree_leaves(node.meta.get("val"))
    numbers = any(isinstance(v, torch.Tensor) and v.is_floating_point() for v in values)
    return numbers and name not in _MOVES
