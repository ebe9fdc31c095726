# SPDX-License-Identifier: BSD-3-Clause
"""How each op keeps the padding of its inputs out of the valid elements of its result.

A rule takes the rewrite and the old node, and returns the new node. It raises Declined for what it does not know.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from math import inf, prod
from typing import Any

import torch

from .expressions import on_chip
from .rewrite import Declined, Node, Rewrite

aten = torch.ops.aten
Rule = Callable[[Rewrite, Node], Any]

class _Table(dict):
    """RULES, and the ops that compute each element from those at the same place."""

    def get(self, target: Any, default: Any = None) -> Rule | None:  # type: ignore[override]
        if target in self:
            return self[target]
        is_pointwise = isinstance(target, torch._ops.OpOverload) and torch.Tag.pointwise in target.tags
        return pointwise if is_pointwise else default


RULES = _Table()


def rule(*targets: Any) -> Callable[[Rule], Rule]:
    def add(function: Rule) -> Rule:
        RULES.update({target: function for target in targets})
        return function

    return add


def bound(node: Node) -> dict[str, Any]:
    """The arguments of a node by their names, with defaults."""
    target: Any = node.target
    schema = target._schema.arguments
    given = dict(zip((argument.name for argument in schema), node.args)) | node.kwargs
    return {argument.name: given.get(argument.name, argument.default_value) for argument in schema}


def again(rewrite: Rewrite, node: Node, target: Any = None, **changed: Any) -> Any:
    """The same op, or another overload, of the new arguments, some of which may be changed."""
    target = target or node.target
    given = {name: value for name, value in bound(node).items() if name not in changed}
    arguments = {name: rewrite.new(value) for name, value in given.items()} | changed
    plain, named = [], {}
    for argument in target._schema.arguments:
        if argument.kwarg_only:
            named[argument.name] = arguments[argument.name]
        else:
            plain.append(arguments[argument.name])
    return rewrite.call(target, *plain, **named)


def only(rewrite: Rewrite, node: Any, dims: Any, why: str) -> None:
    """Declines if a size of another dimension than `dims` depends on data."""
    others = sorted(set(rewrite.extents(node)) - set(dims))
    if others:
        raise Declined(f"{rewrite.node.name} ({rewrite.node.target}): dimension {others[0]} has a count, {why}")


def value_of(node: Node) -> torch.Tensor:
    return node.meta["val"]


def all_dims(node: Any) -> range:
    return range(node.meta["val"].ndim) if isinstance(node, Node) else range(0)


# Elements and rows.


def pointwise(rewrite: Rewrite, node: Node) -> Any:
    """A number that depends on data becomes a tensor of no dimensions."""
    changed = {}
    target: Any = node.target
    for name, value in bound(node).items():
        if rewrite.is_number_of_data(value):
            target = _of_tensor(node, name)
            changed[name] = on_chip(rewrite, rewrite.expr(value))
    return again(rewrite, node, target, **changed)


def _of_tensor(node: Node, name: str) -> Any:
    """The overload of an op that takes a tensor for an argument."""
    target: Any = node.target
    found = target if target._overloadname != "Scalar" else getattr(target.overloadpacket, "Tensor", None)
    types = {argument.name: argument.type for argument in found._schema.arguments} if found is not None else {}
    if not isinstance(types.get(name), torch._C.TensorType):
        raise Declined(f"{node.name} ({target}): the number {name} depends on data")
    return found


for _target in (aten.clone.default, aten._to_copy.default, aten.alias.default, aten.permute.default, aten.unsqueeze.default,
                aten.expand.default, aten.transpose.int, aten.t.default, aten.full.default, aten.full_like.default,
                aten.zeros_like.default, aten.ones_like.default, aten.empty.memory_format, aten.zeros.default, aten.ones.default,
                aten.squeeze.dims, aten.squeeze.dim, aten.where.self, aten.detach.default, aten.lift_fresh_copy.default,
                aten.copy.default):  # fmt: skip
    RULES[_target] = again


@rule(operator.getitem)
def getitem(rewrite: Rewrite, node: Node) -> Node:
    return rewrite.new(node.args[0])[node.args[1]]


@rule(aten.bucketize.Tensor)
def bucketize(rewrite: Rewrite, node: Node) -> Any:
    only(rewrite, node.args[1], (), "of the boundaries")
    return again(rewrite, node)


@rule(aten.arange.start_step, aten.arange.default, aten.arange.start)
def arange(rewrite: Rewrite, node: Node) -> Any:
    args = bound(node)
    if any(not isinstance(args.get(name, 0), (int, float)) for name in ("start", "step")) or args.get("step", 1) <= 0:
        raise Declined(f"{node.name} ({node.target}): its start or its step depends on data, or the step is negative")
    return again(rewrite, node)


@rule(aten.view.default, aten._unsafe_view.default, aten.reshape.default)
def view(rewrite: Rewrite, node: Node) -> Any:
    """Within a group of dimensions that become one, or become of one, only the first may have a count."""
    source, result = node.args[0], node
    before, after = rewrite.extents(source), rewrite.extents(result)
    sizes = [[rewrite.at_bound(size) for size in value_of(item).shape] for item in (source, result)]
    for pieces in _groups(*sizes):
        for dims, extents, shape in zip(pieces, (before, after), sizes):
            first = next((d for d in dims if shape[d] != 1 or d in extents), None)
            if any(d in extents and d != first for d in dims):
                raise Declined(f"{node.name} ({node.target}): a dimension with a count is not the first that it joins")
    return rewrite.call(aten.view.default, _contiguous(rewrite, node), sizes[1])


def _contiguous(rewrite: Rewrite, node: Node) -> Node:
    new = rewrite.new(node.args[0])
    sizes = [rewrite.at_bound(size) for size in value_of(node).shape]
    try:
        value_of(new).view(sizes)
    except RuntimeError:
        return rewrite.call(aten.clone.default, new, memory_format=torch.contiguous_format)
    return new


def _groups(before: list[int], after: list[int]) -> list[tuple[list[int], list[int]]]:
    """The smallest groups of dimensions with equal numbers of elements."""
    groups = []
    i = j = 0
    while i < len(before) or j < len(after):
        first, second = [i] if i < len(before) else [], [j] if j < len(after) else []
        i, j = i + len(first), j + len(second)
        while (a := prod(before[d] for d in first)) != (b := prod(after[d] for d in second)):
            if a < b and i < len(before):
                first.append(i)
                i += 1
            elif j < len(after):
                second.append(j)
                j += 1
            else:
                raise Declined("a view of no elements")
        groups.append((first, second))
    return groups


@rule(aten.select.int)
def select(rewrite: Rewrite, node: Node) -> Any:
    source, dim, index = (bound(node)[name] for name in ("self", "dim", "index"))
    if dim % value_of(source).ndim in rewrite.extents(source):
        if not isinstance(index, int) or index < 0:
            raise Declined(f"{node.name} ({node.target}): an index from the end of a dimension with a count")
        rewrite.require(rewrite.expr(rewrite.extents(source)[dim % value_of(source).ndim]) > index, "index out of range")
    return again(rewrite, node)


@rule(aten.slice.Tensor)
def slice_(rewrite: Rewrite, node: Node) -> Any:
    args = bound(node)
    start, end = args["start"] or 0, args["end"]
    dim = args["dim"] % value_of(args["self"]).ndim
    moved = not isinstance(start, int) or start < 0 or (isinstance(end, int) and end < 0)
    if moved and dim in rewrite.extents(args["self"]) | rewrite.extents(node):
        raise Declined(f"{node.name} ({node.target}): a slice from the end of a dimension with a count")
    return again(rewrite, node)


@rule(aten.cat.default)
def cat(rewrite: Rewrite, node: Node) -> Any:
    """Where a tensor with a count has others behind it, rows are gathered by their places."""
    tensors, dim = bound(node)["tensors"], bound(node)["dim"] % value_of(node).ndim
    counted = [dim in rewrite.extents(item) for item in tensors]
    joined = again(rewrite, node)
    if not any(counted[:-1]):
        return joined
    total = value_of(joined).shape[dim]
    places = rewrite.call(aten.arange.start_step, 0, total, 1, dtype=torch.int64, device=rewrite.device)
    found, skipped, end = places, 0, 0
    for item in tensors[:-1]:  # a place at or behind the end of an item skips the padding of the item
        size = rewrite.at_bound(value_of(item).shape[dim])
        end = end + rewrite.expr(value_of(item).shape[dim])
        skipped = skipped + size
        begin = on_chip(rewrite, end)
        behind = rewrite.call(aten.ge.Tensor, places, begin)
        moved = rewrite.call(aten.add.Tensor, rewrite.call(aten.sub.Tensor, places, begin), skipped)
        found = rewrite.call(aten.where.self, behind, moved, found)
    found = rewrite.call(aten.clamp.default, found, 0, total - 1)
    return rewrite.call(aten.index_select.default, joined, dim, found)


@rule(aten.constant_pad_nd.default)
def constant_pad_nd(rewrite: Rewrite, node: Node) -> Any:
    args = bound(node)
    value = args["value"]
    ndim = value_of(args["self"]).ndim
    pads = args["pad"]
    padded = [ndim - 1 - i // 2 for i, pad in enumerate(pads) if not (type(pad) is int and pad == 0)]
    if any(not isinstance(pads[i], int) for i in range(0, len(pads), 2)) or any(isinstance(p, int) and p < 0 for p in pads):
        raise Declined(f"{node.name} ({node.target}): a padding at the front that depends on data, or a negative one")
    return again(rewrite, node, self=rewrite.filled(args["self"], padded, value))


@rule(aten.repeat.default)
def repeat(rewrite: Rewrite, node: Node) -> Any:
    args = bound(node)
    front = len(args["repeats"]) - value_of(args["self"]).ndim
    for dim in rewrite.extents(args["self"]):
        if args["repeats"][front + dim] != 1:
            raise Declined(f"{node.name} ({node.target}): repeats of a dimension with a count")
    return again(rewrite, node)


@rule(aten.unfold.default)
def unfold(rewrite: Rewrite, node: Node) -> Any:
    return again(rewrite, node)  # windows begin at the front


@rule(aten.split.Tensor, aten.unbind.int)
def split(rewrite: Rewrite, node: Node) -> Any:
    args = bound(node)
    dim = args["dim"] % value_of(args["self"]).ndim
    only(rewrite, args["self"], set(all_dims(args["self"])) - {dim}, "which is split")
    return again(rewrite, node)


@rule(aten.split_with_sizes.default)
def split_with_sizes(rewrite: Rewrite, node: Node) -> Any:
    """A piece behind one whose size depends on data is gathered by its places."""
    args = bound(node)
    source, sizes = args["self"], [rewrite.expr(size) for size in args["split_sizes"]]
    dim = args["dim"] % value_of(source).ndim
    rewrite.require(_equal(sum(sizes), rewrite.expr(value_of(source).shape[dim])), "the sizes of a split have another sum")
    new, begin, pieces = rewrite.new(source), _integer(0), []
    whole = value_of(new).shape[dim]
    for size in args["split_sizes"]:
        count = rewrite.new(size)
        if begin.is_Integer and int(begin) + count <= whole:
            piece = rewrite.call(aten.slice.Tensor, new, dim, int(begin), int(begin) + count)
        else:
            places = rewrite.call(aten.arange.start_step, 0, count, 1, dtype=torch.int64, device=rewrite.device)
            places = rewrite.call(aten.add.Tensor, places, on_chip(rewrite, begin))
            places = rewrite.call(aten.clamp.default, places, 0, max(0, whole - 1))
            piece = rewrite.call(aten.index_select.default, new, dim, places)
        pieces.append(piece)
        begin = begin + rewrite.expr(size)
    return tuple(pieces)


def _equal(a: Any, b: Any) -> Any:
    import sympy

    return sympy.Eq(a, b)


def _integer(number: int) -> Any:
    import sympy

    return sympy.Integer(number)


@rule(aten.flip.default)
def flip(rewrite: Rewrite, node: Node) -> Any:
    """A dimension with a count is gathered from its last valid place on."""
    args = bound(node)
    extents = rewrite.extents(args["self"])
    dims = [dim % value_of(args["self"]).ndim for dim in args["dims"]]
    new = rewrite.call(aten.flip.default, rewrite.new(args["self"]), [dim for dim in dims if dim not in extents])
    for dim in extents.keys() & set(dims):
        places = rewrite.call(aten.arange.start_step, 0, value_of(new).shape[dim], 1, dtype=torch.int64, device=rewrite.device)
        places = rewrite.call(aten.sub.Tensor, on_chip(rewrite, extents[dim] - 1), places)
        new = rewrite.call(aten.index_select.default, new, dim, rewrite.call(aten.clamp.default, places, 0))
    return new


@rule(aten.slice_scatter.default)
def slice_scatter(rewrite: Rewrite, node: Node) -> Any:
    """A source with a count, which is written from the front of a dimension, replaces as many elements."""
    args = bound(node)
    target, source, dim = args["self"], args["src"], args["dim"] % value_of(node).ndim
    others = set(all_dims(source)) - {dim}
    if not rewrite.extents(source).keys() & {dim}:
        only(rewrite, source, others, "of the source")
        if not all(isinstance(args[name], int | None) for name in ("start", "end")):
            raise Declined(f"{node.name} ({node.target}): its ends depend on data")
        return again(rewrite, node)
    if args["start"] not in (0, None) or args["step"] != 1:
        raise Declined(f"{node.name} ({node.target}): a source with a count that is not written from the front")
    new, piece = rewrite.new(target), rewrite.new(source)
    size, most = value_of(new).shape[dim], value_of(piece).shape[dim]
    if most > size:
        piece = rewrite.call(aten.slice.Tensor, piece, dim, 0, size)
    padding = [0] * (2 * (value_of(node).ndim - dim) - 1) + [max(0, size - most)]
    piece = rewrite.call(aten.constant_pad_nd.default, piece, padding)
    places = rewrite.call(aten.arange.start_step, 0, size, 1, dtype=torch.int64, device=rewrite.device)
    mask = rewrite.call(aten.lt.Tensor, places, on_chip(rewrite, rewrite.extents(source)[dim]))
    mask = rewrite.call(aten.view.default, mask, [size if d == dim else 1 for d in all_dims(node)])
    return rewrite.call(aten.where.self, mask, piece, new)


@rule(aten.select_scatter.default)
def select_scatter(rewrite: Rewrite, node: Node) -> Any:
    args = bound(node)
    if args["dim"] % value_of(node).ndim in rewrite.extents(args["self"]) or not isinstance(args["index"], int):
        raise Declined(f"{node.name} ({node.target}): a dimension with a count")
    return again(rewrite, node)


@rule(aten.grid_sampler.default, aten.grid_sampler_2d.default, aten.grid_sampler_3d.default)
def grid_sampler(rewrite: Rewrite, node: Node) -> Any:
    image, grid = node.args[:2]
    only(rewrite, image, (0,), "of an image")
    only(rewrite, grid, all_dims(grid)[:-1], "of coordinates")
    return again(rewrite, node)


@rule(aten._assert_async.msg, aten._assert_async.default)
def assertion(rewrite: Rewrite, node: Node) -> Any:
    return again(rewrite, node)


# Reductions.


def lowest(dtype: torch.dtype) -> Any:
    return False if dtype == torch.bool else -inf if dtype.is_floating_point else torch.iinfo(dtype).min


def highest(dtype: torch.dtype) -> Any:
    return True if dtype == torch.bool else inf if dtype.is_floating_point else torch.iinfo(dtype).max


def reduced_dims(node: Node) -> list[int]:
    args = bound(node)
    ndim = value_of(args["self"]).ndim
    given = args.get("dim")
    dims = list(range(ndim)) if given is None or given == [] else [given] if isinstance(given, int) else given
    return [dim % ndim for dim in dims] if ndim else []


def reduction(neutral: Callable[[torch.dtype], Any], nonempty: bool, rewrite: Rewrite, node: Node) -> Any:
    source = node.args[0]
    dims = reduced_dims(node)
    if nonempty:
        for dim, expr in rewrite.extents(source).items():
            if dim in dims:
                rewrite.require(expr >= 1, "a reduction of no elements")
    return again(rewrite, node, self=rewrite.filled(source, dims, neutral(value_of(source).dtype)))


def _zero(dtype: torch.dtype) -> Any:
    return False if dtype == torch.bool else 0


def _one(dtype: torch.dtype) -> Any:
    return True if dtype == torch.bool else 1


for _neutral, _nonempty, _names in (
    (_zero, False, ("sum.default", "sum.dim_IntList", "linalg_vector_norm.default", "any.default", "any.dim", "any.dims",
                    "count_nonzero.default", "cumsum.default", "_is_any_true.default")),
    (_one, False, ("prod.default", "prod.dim_int", "all.default", "all.dim", "all.dims", "cumprod.default",
                    "_is_all_true.default")),
    (lowest, True, ("amax.default", "max.default", "max.dim", "argmax.default")),
    (highest, True, ("amin.default", "min.default", "min.dim", "argmin.default")),
    (lowest, False, ("_softmax.default", "softmax.int", "_log_softmax.default", "log_softmax.int", "logsumexp.default")),
):  # fmt: skip
    for _name in _names:
        _packet, _overload = _name.split(".")
        RULES[getattr(getattr(aten, _packet), _overload)] = partial(reduction, _neutral, _nonempty)


@rule(aten.mean.dim, aten.mean.default)
def mean(rewrite: Rewrite, node: Node) -> Any:
    args = bound(node)
    source, dims = args["self"], reduced_dims(node)
    if not set(dims) & rewrite.extents(source).keys():
        return again(rewrite, node)
    if value_of(node).dtype not in (torch.float32, torch.float64):
        raise Declined(f"{node.name} ({node.target}): a mean over a count in {value_of(node).dtype}")
    keep = bool(args.get("keepdim", False))
    filled = rewrite.filled(source, dims, 0)
    total = rewrite.call(aten.sum.dim_IntList, filled, dims, keep, dtype=value_of(node).dtype)
    count = prod(rewrite.expr(value_of(source).shape[dim]) for dim in dims)
    return rewrite.call(aten.div.Tensor, total, on_chip(rewrite, count))


@rule(aten.sort.default, aten.sort.stable, aten.argsort.default, aten.argsort.stable, aten.topk.default)
def sort(rewrite: Rewrite, node: Node) -> Any:
    """Padding comes last, behind equal elements."""
    args = bound(node)
    source = args["self"]
    dim = args["dim"] % max(1, value_of(source).ndim)
    descending = args["largest"] if "largest" in args else args["descending"]
    dtype = value_of(source).dtype
    if dtype.is_floating_point and not descending and dim in rewrite.extents(source):
        raise Declined(f"{node.name} ({node.target}): an ascending order of floats with a count, in which NaN comes last")
    extents = rewrite.extents(source)
    if dim in extents and "k" in args:
        if not isinstance(args["k"], int):
            raise Declined(f"{node.name} ({node.target}): k depends on data")
        rewrite.require(extents[dim] >= args["k"], "selected index k out of range")
    fill = lowest(dtype) if descending else highest(dtype)
    return again(rewrite, node, self=rewrite.filled(source, [dim], fill))


# Products.


@rule(aten.linear.default)
def linear(rewrite: Rewrite, node: Node) -> Any:
    args = bound(node)
    only(rewrite, args["input"], all_dims(args["input"])[:-1], "which is summed")
    only(rewrite, args["weight"], (), "of the weight")
    return again(rewrite, node)


@rule(aten.mm.default, aten.bmm.default, aten.matmul.default, aten.mv.default, aten.dot.default)
def product(rewrite: Rewrite, node: Node) -> Any:
    first, second = node.args[:2]
    left = value_of(first).ndim - 1
    right = max(0, value_of(second).ndim - 2)
    target: Any = node.target
    return rewrite.call(target, rewrite.filled(first, [left], 0), rewrite.filled(second, [right], 0))


@rule(aten.addmm.default, aten.baddbmm.default)
def added_product(rewrite: Rewrite, node: Node) -> Any:
    args = bound(node)
    names = ("mat1", "mat2") if "mat1" in args else ("batch1", "batch2")
    first, second = (args[name] for name in names)
    left, right = value_of(first).ndim - 1, value_of(second).ndim - 2
    changed = {names[0]: rewrite.filled(first, [left], 0), names[1]: rewrite.filled(second, [right], 0)}
    return again(rewrite, node, **changed)


@rule(aten.convolution.default)
def convolution(rewrite: Rewrite, node: Node) -> Any:
    """Images are independent, and what lies behind the end of a signal is zero."""
    args = bound(node)
    source = args["input"]
    only(rewrite, args["weight"], (), "of the weight")
    image = range(2, value_of(source).ndim)
    only(rewrite, source, {0} if args["transposed"] else {0, *image}, "which the op joins")
    padded = [dim for dim, pad in zip(image, args["padding"], strict=False) if pad != 0]
    return again(rewrite, node, input=rewrite.filled(source, padded, 0))


@rule(aten.scaled_dot_product_attention.default)
def attention(rewrite: Rewrite, node: Node) -> Any:
    args = bound(node)
    query, key, value = (args[name] for name in ("query", "key", "value"))
    for item in (key, value):
        only(rewrite, item, all_dims(item)[:-2], "of keys or values")
    only(rewrite, query, all_dims(query)[:-1], "which is summed")
    if args["dropout_p"]:
        raise Declined(f"{node.name} ({node.target}): dropout")
    return again(rewrite, node)


# Normalization.


@rule(aten.layer_norm.default, aten.native_layer_norm.default, aten.rms_norm.default, aten._fused_rms_norm.default)
def layer_norm(rewrite: Rewrite, node: Node) -> Any:
    args = bound(node)
    source = args["input"]
    rows = value_of(source).ndim - len(args["normalized_shape"])
    only(rewrite, source, range(rows), "which is normalized")
    return again(rewrite, node)


@rule(aten._native_batch_norm_legit_no_training.default)
def batch_norm(rewrite: Rewrite, node: Node) -> Any:
    source = bound(node)["input"]
    only(rewrite, source, set(all_dims(source)) - {1}, "of channels")
    return again(rewrite, node)


@rule(aten.max_pool2d_with_indices.default, aten.max_pool2d.default, aten.avg_pool2d.default, aten._adaptive_avg_pool2d.default)
def pool(rewrite: Rewrite, node: Node) -> Any:
    only(rewrite, node.args[0], range(value_of(node.args[0]).ndim - 2), "of an image")
    return again(rewrite, node)
