# SPDX-License-Identifier: BSD-3-Clause
"""Which ops are taken apart before lowering, and which stay whole.

The default table of torch.export is the base. An op stays whole when one kernel does its work: taking it apart would
cost launches, and would no longer give the bits of eager mode, which launches that kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import torch

from ..program.sizes import is_symbolic
from ..program.support import native_ops, op_key, overloads
from .composites import affine_grid_generator, linear, resize_as, scaled_dot_product_attention, upsample
from .foreach import foreach_decompositions
from .quantized_decomposed import quantized_decompositions

aten = torch.ops.aten

# Not in the list of native ops, since eager mode reaches their parts through upstream's composites, whose launches are
# recorded.
KEPT_WHOLE = overloads(
    "select_scatter", "slice_scatter", "linear", "layer_norm", "masked_fill.Scalar", "masked_fill.Tensor", "mv",
    "index_fill.int_Scalar", "index_fill.int_Tensor",
    "linspace", "upsample_linear1d.vec", "upsample_trilinear3d.vec", "upsample_bicubic2d.vec",
    "_upsample_bilinear2d_aa.vec", "_upsample_bicubic2d_aa.vec", "upsample_nearest1d.vec", "upsample_nearest3d.vec",
    "_upsample_nearest_exact1d.vec", "_upsample_nearest_exact2d.vec", "_upsample_nearest_exact3d.vec",
    "linalg_vector_norm", "isinf", "mvlgamma", "soft_margin_loss", "soft_margin_loss_backward",
    "nan_to_num", "celu", "deg2rad", "rad2deg", "count_nonzero",
)  # fmt: skip


# Ours, where upstream has none or one that leads to ops without a kernel.
# They are what eager mode launches for the op.
ADDED: dict[torch._ops.OpOverload, Callable] = {
    # Upstream takes nn.RMSNorm apart into these. A number is an operand like any other.
    aten.add.Scalar: lambda self, other, alpha=1: torch.add(self, other, alpha=alpha),
    aten.sub.Scalar: lambda self, other, alpha=1: torch.sub(self, other, alpha=alpha),
    aten.mul.Scalar: lambda self, other: torch.mul(self, other),
    aten.div.Scalar: lambda self, other: torch.div(self, other),
    aten.affine_grid_generator.default: affine_grid_generator,
    aten.linear.default: linear,
    aten.resize_as.default: resize_as,
    aten.scaled_dot_product_attention.default: scaled_dot_product_attention,
}


@lru_cache(maxsize=1)
def eager_decompositions() -> dict[torch._ops.OperatorBase, Callable]:
    """The table for graphs of torch.compile. An op that eager mode runs natively stays whole, so that its launches can
    be recorded, and so does one that draws random numbers: others would draw in another order."""
    table = dict(torch.export.default_decompositions().items())
    for op in list(table):
        if op in KEPT_WHOLE or _is_native(op) or _draws(op):
            del table[op]
    return table | foreach_decompositions() | ADDED


def decomposition_table() -> dict[torch._ops.OperatorBase, Callable]:
    """The table for ExportedProgram.run_decompositions."""
    return eager_decompositions() | quantized_decompositions()


# Upstream takes these apart in Python kernels of their own, whatever the table says; not as eager mode does.
_IN_PYTHON = overloads(
    *("softshrink", "hardshrink", "multi_margin_loss", "multilabel_margin_loss_forward"),
    *("upsample_bilinear2d", "upsample_bicubic2d"),
)
_COMPOSITE = torch._C.DispatchKey.CompositeImplicitAutograd
_COMPOSITES = ("matmul", "upsample", "_upsample", "lstm", "gru", "rnn_")


def _draws(op: torch._ops.OperatorBase) -> bool:
    """Whether an op draws random numbers, and is not made of others that do."""
    return torch.Tag.nondeterministic_seeded in op.tags and not op._can_decompose()  # type: ignore[attr-defined]


@contextmanager
def without_python_kernels(*, composites: bool = False) -> Iterator[None]:
    """While a program is taken apart: such kernels of native ops are set aside. composites: also those of ops that
    upstream composes in C++, too, which eager mode calls, unless they are for dynamic sizes alone."""
    keys = torch._C.DispatchKey.Autograd, _COMPOSITE
    places = [(op, keys[0]) for op in _IN_PYTHON if _is_native(op)]
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


def _is_native(op: torch._ops.OperatorBase) -> bool:
    return op_key(op) in native_ops()
