# SPDX-License-Identifier: BSD-3-Clause
"""Which ops are taken apart before lowering, and which stay whole.

The default table of torch.export is the base. An op stays whole when one kernel does its work: taking it apart would
cost launches, and would no longer give the bits of eager mode, which launches that kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from math import inf
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import guard_or_true
from torch.utils import _pytree as pytree

from ..lower import RULES, is_pointwise
from ..program.sizes import is_symbolic
from ..program.support import SupportTable, op_key, overloads, support_table
from .composites import (
    addr,
    affine_grid_generator,
    channel_shuffle,
    linear,
    mvlgamma,
    of_contiguous_input,
    resize_as,
    scaled_dot_product_attention,
    soft_margin_loss,
    soft_margin_loss_backward,
    upsample,
)
from .foreach import foreach_decompositions
from .norm_gradients import group_norm_backward, layer_norm_backward
from .quantized_decomposed import quantized_decompositions

aten = torch.ops.aten

# Not in the list of native ops, since eager mode reaches their parts through upstream's composites; launched as one.
KEPT_WHOLE = overloads(
    "select_scatter", "slice_scatter", "linear", "layer_norm", "masked_fill.Scalar", "masked_fill.Tensor", "mv",
    "index_fill.int_Scalar", "index_fill.int_Tensor",
    "linspace", "upsample_linear1d.vec", "upsample_trilinear3d.vec", "upsample_bicubic2d.vec",
    "_upsample_bilinear2d_aa.vec", "_upsample_bicubic2d_aa.vec", "upsample_nearest1d.vec", "upsample_nearest3d.vec",
    "_upsample_nearest_exact1d.vec", "_upsample_nearest_exact2d.vec", "_upsample_nearest_exact3d.vec",
)  # fmt: skip


def _vector_norm(
    self: torch.Tensor,
    ord: float = 2,  # noqa: A002 (upstream's name)
    dim: list[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """Half-precision inputs are widened first, so that powers and sums are rounded once."""
    x = self if dtype is None else self.to(dtype)
    if x.is_complex() or (ord in (1, 2) and guard_or_true(x.numel() > 0)):
        return NotImplemented  # one kernel's work
    result_dtype = x.dtype
    x = x.to(torch.float64 if x.dtype == torch.float64 else torch.float32)
    dims = list(range(x.ndim)) if not dim else dim
    if 0 <= ord < inf and not guard_or_true(x.numel() > 0):
        result = x.sum(dims, keepdim)
    elif ord == 2:
        result = (x * x).sum(dims, keepdim).sqrt()
    elif ord == 1:
        result = x.abs().sum(dims, keepdim)
    elif ord == 0:
        result = (x != 0).sum(dims, keepdim, dtype=x.dtype)
    elif abs(ord) == inf:
        result = x.abs().amax(dims, keepdim) if ord > 0 else x.abs().amin(dims, keepdim)
    else:
        result = x.abs().pow(ord).sum(dims, keepdim).pow(1 / ord)
    return result.to(result_dtype)


def _isinf(self: torch.Tensor) -> torch.Tensor:
    if self.is_complex():
        return torch.isinf(self.real) | torch.isinf(self.imag)
    if self.is_floating_point():
        return self.abs() == inf
    return torch.zeros_like(self, dtype=torch.bool)


# Ours, where upstream has none or one that leads to ops without a kernel.
# They are what eager mode launches for the op.
ADDED: dict[torch._ops.OpOverload, Callable] = {
    aten.linalg_vector_norm.default: _vector_norm,
    # Upstream takes nn.RMSNorm apart into these. A number is an operand like any other.
    aten.add.Scalar: lambda self, other, alpha=1: torch.add(self, other, alpha=alpha),
    aten.sub.Scalar: lambda self, other, alpha=1: torch.sub(self, other, alpha=alpha),
    aten.mul.Scalar: lambda self, other: torch.mul(self, other),
    aten.div.Scalar: lambda self, other: torch.div(self, other),
    aten.isinf.default: _isinf,
    aten.addr.default: addr,
    aten.affine_grid_generator.default: affine_grid_generator,
    aten.channel_shuffle.default: channel_shuffle,
    aten.linear.default: linear,
    aten.log_sigmoid_forward.default: of_contiguous_input(aten.log_sigmoid_forward.default),
    aten.mvlgamma.default: mvlgamma,
    aten.resize_as.default: resize_as,
    aten.soft_margin_loss.default: soft_margin_loss,
    aten.soft_margin_loss_backward.default: soft_margin_loss_backward,
    aten.scaled_dot_product_attention.default: scaled_dot_product_attention,
    aten.native_layer_norm_backward.default: layer_norm_backward,
    aten.native_group_norm_backward.default: group_norm_backward,
    **{
        op: of_contiguous_input(op, formats=True)
        for op in (
            aten._native_batch_norm_legit_no_training.default,
            aten._native_batch_norm_legit_functional.default,
            aten._native_batch_norm_legit.no_stats,
        )
    },
}


def decomposition_table(support: SupportTable) -> dict[torch._ops.OperatorBase, Callable]:
    """The table for ExportedProgram.run_decompositions. An op that eager mode runs natively stays whole, and so does
    one that draws random numbers: others would draw in another order."""
    table = dict(_of_this_build()) if support is support_table() else _table(support)
    return table | quantized_decompositions()


@lru_cache(maxsize=1)
def _of_this_build() -> dict[torch._ops.OperatorBase, Callable]:
    return _table(support_table())


def _table(support: SupportTable) -> dict[torch._ops.OperatorBase, Callable]:
    table = dict(torch.export.default_decompositions().items())
    for op in list(table):
        if op in KEPT_WHOLE or _is_native(op, support) or _draws(op):
            del table[op]
    table.update(foreach_decompositions())
    table.update(ADDED)
    return table


@lru_cache(maxsize=1)
def eager_decompositions() -> dict[torch._ops.OperatorBase, Callable]:
    """The table for graphs of torch.compile: in them everything stays whole that eager mode runs natively, so that its
    launches can be recorded, but for dynamic sizes, of which there is no recording."""
    support = support_table()
    table = _table(support)
    for op, decomposition in list(table.items()):
        if op not in ADDED and op_key(op) in support and not op._schema.is_mutable:  # type: ignore[attr-defined]
            table[op] = _of_dynamic_sizes(decomposition)
    return table


def _of_dynamic_sizes(decomposition: Callable) -> Callable:
    def taken_apart(*args: Any, **kwargs: Any) -> Any:
        if any(is_symbolic(number) for leaf in pytree.tree_leaves((args, kwargs)) for number in _numbers(leaf)):
            return decomposition(*args, **kwargs)
        return NotImplemented

    return taken_apart


def _numbers(leaf: Any) -> tuple[Any, ...]:
    return (*leaf.shape, *leaf.stride()) if isinstance(leaf, torch.Tensor) else (leaf,)


# Upstream takes these apart in Python kernels of their own, whatever the table says; not as eager mode does.
_LOSSES = overloads("softshrink", "hardshrink", "multi_margin_loss", "multilabel_margin_loss_forward")
_COMPOSITE = torch._C.DispatchKey.CompositeImplicitAutograd
_COMPOSITES = ("matmul", "upsample", "_upsample", "lstm", "gru", "rnn_")


def _draws(op: torch._ops.OperatorBase) -> bool:
    """Whether an op draws random numbers, and is not made of others that do."""
    return torch.Tag.nondeterministic_seeded in op.tags and not op._can_decompose()  # type: ignore[attr-defined]


@contextmanager
def without_python_kernels(support: SupportTable, *, composites: bool = False) -> Iterator[None]:
    """While a program is taken apart: such kernels of native ops are set aside. composites: also those of ops that
    upstream composes in C++, too, which eager mode calls, unless they are for dynamic sizes alone."""
    keys = torch._C.DispatchKey.Autograd, _COMPOSITE
    places = [(op, keys[0]) for op in _LOSSES if _is_native(op, support)]
    if composites:
        packets = [getattr(aten, name) for name in dir(aten) if name.startswith(_COMPOSITES)]
        places += [(getattr(packet, name), key) for packet in packets for name in packet.overloads() for key in keys]
    aside = []
    for op, key in places:
        if key in op.py_kernels:
            aside.append((op, key, op.py_kernels.pop(key)))
            op._dispatch_cache.clear()
    installed = _kernels_of_dynamic_sizes() if composites else []
    try:
        yield
    finally:
        for op in installed:
            del op.py_kernels[_COMPOSITE]
            op._dispatch_cache.clear()
        for op, key, kernel in aside:
            op.py_kernels[key] = kernel
            op._dispatch_cache.clear()


def _kernels_of_dynamic_sizes() -> list[torch._ops.OpOverload]:
    """Give ops that resize images a kernel for dynamic sizes, and return them. Other sizes take the kernel in C++."""
    found = []
    for name in dir(aten):
        packet = getattr(aten, name)
        if not name.startswith(("upsample_", "_upsample_")) or "vec" not in packet.overloads():
            continue

        def kernel(*args: Any, packet: Any = packet, **kwargs: Any) -> torch.Tensor:
            given = [*args, *(kwargs[argument.name] for argument in packet.vec._schema.arguments[len(args) :])]
            if any(map(is_symbolic, given[1] or ())):
                return upsample(packet, *given)
            return packet.vec._op_dk(_COMPOSITE, *given)

        packet.vec.py_kernels[_COMPOSITE] = kernel
        packet.vec._dispatch_cache.clear()
        found.append(packet.vec)
    return found


def _is_native(op: torch._ops.OperatorBase, support: SupportTable) -> bool:
    entry = support.get(op_key(op))
    return entry is not None and (is_pointwise(entry) or op_key(op) in RULES)
