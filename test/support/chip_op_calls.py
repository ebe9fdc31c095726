# SPDX-License-Identifier: BSD-3-Clause
"""The example calls of ops as chip code: floating tensors become bfloat16."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from example_calls import SHAPE_ONLY, Call, core_overloads
from op_programs import NO_PROGRAM, NOT_LOWERED, Calls, calls_of, with_rule
from torch import nn
from torch.utils import _pytree as pytree

from torch_atalla.compiler.capture.narrow import to_bfloat16
from torch_atalla.compiler.targets.chip import generate
from torch_atalla.compiler.targets.chip.build import CompiledNetwork, compile_model
from torch_atalla.compiler.targets.chip.check import check_network
from torch_atalla.compiler.targets.chip.kernels.pointwise import Unsupported

# Calls that together run every selector and every routine that an example call reaches; the fast suite has only these.
# To choose them again: run all calls with `recorded_kernels`, then take those that add the most kernels per second.
FAST: dict[str, tuple[int, ...]] = {
    "_adaptive_avg_pool2d": (1,),
    "_adaptive_avg_pool3d": (2,),
    "_log_softmax": (4,),
    "_softmax": (3,),
    "_upsample_nearest_exact2d.vec": (0,),
    "abs": (7,),
    "acos": (2, 7),
    "acosh": (1, 2),
    "adaptive_max_pool3d": (0,),
    "add.Tensor": (7,),
    "all": (7,),
    "aminmax": (2,),
    "any.dims": (7,),
    "argmax": (0, 5),
    "argmin": (4,),
    "asin": (1,),
    "asinh": (1,),
    "atan": (0,),
    "atan2": (0,),
    "atanh": (3,),
    "avg_pool2d": (4,),
    "binary_cross_entropy": (2,),
    "bitwise_and.Scalar_Tensor": (0,),
    "bitwise_not": (1,),
    "bitwise_or.Tensor": (0,),
    "bitwise_xor.Tensor": (1,),
    "bmm": (0, 7),
    "ceil": (1,),
    "clamp.Tensor": (2,),
    "col2im": (1,),
    "convolution": (1,),
    "cos": (0, 3),
    "cosh": (0, 3),
    "cummax": (4,),
    "cummin": (0,),
    "cumprod": (6,),
    "div.Scalar_mode": (1, 3, 5),
    "div.Tensor": (2,),
    "elu": (0, 3),
    "embedding_dense_backward": (1,),
    "erf": (2,),
    "exp": (6, 7),
    "expm1": (1,),
    "flip": (1,),
    "floor": (1,),
    "fmod.Tensor": (5,),
    "full_like": (3,),
    "gather": (6,),
    "glu": (2, 3),
    "gt.Tensor": (5,),
    "histc": (1,),
    "huber_loss": (2,),
    "im2col": (3,),
    "index.Tensor": (2, 6),
    "index_select": (1, 7),
    "isinf": (1,),
    "isnan": (2,),
    "layer_norm": (0,),
    "le.Scalar": (0,),
    "linalg_vector_norm": (1, 2),
    "log": (1, 2),
    "log10": (2, 3),
    "log1p": (3,),
    "log2": (6, 7),
    "logcumsumexp": (0,),
    "logical_and": (9,),
    "logical_not": (6, 7),
    "logical_or": (8,),
    "logical_xor": (2,),
    "logsumexp": (2,),
    "max": (4,),
    "max.dim": (3,),
    "max_pool3d_with_indices": (5,),
    "maximum": (4,),
    "min": (4,),
    "min.dim": (2,),
    "minimum": (4,),
    "mse_loss": (2,),
    "mul.Tensor": (6,),
    "nansum": (5,),
    "native_group_norm": (2,),
    "native_layer_norm": (3,),
    "neg": (7,),
    "nll_loss2d_forward": (2,),
    "pow.Tensor_Scalar": (5, 7),
    "pow.Tensor_Tensor": (3,),
    "prod.dim_int": (7,),
    "reciprocal": (7,),
    "reflection_pad2d": (1,),
    "relu": (5,),
    "remainder.Tensor": (5,),
    "repeat_interleave.Tensor": (1,),
    "replication_pad1d": (3,),
    "rms_norm": (0,),
    "roll": (2,),
    "round": (1,),
    "rsqrt": (6, 7),
    "scaled_dot_product_attention": (0,),
    "scatter_reduce.two": (4,),
    "sigmoid": (6, 7),
    "sign": (0,),
    "sin": (1, 2),
    "sinh": (0, 1),
    "smooth_l1_loss": (3,),
    "sort": (0,),
    "sqrt": (6,),
    "std_mean.correction": (2,),
    "sub.Tensor": (6,),
    "sum": (1,),
    "tan": (3,),
    "tanh": (6, 7),
    "topk": (3,),
    "triu": (2,),
    "trunc": (1,),
    "upsample_bicubic2d.vec": (1,),
    "upsample_trilinear3d.vec": (0,),
    "var.correction": (2,),
}


def names() -> list[str]:
    """Ops with a lowering whose results are determined."""
    return sorted((with_rule() | core_overloads()) - set(NOT_LOWERED) - set(NO_PROGRAM) - SHAPE_ONLY)


def chip_calls(name: str) -> dict[int, Call]:
    """The op's calls that the CPU computes in bfloat16, by their numbers."""
    found = {}
    for number, call in enumerate(calls_of(name)):
        narrow = Call(*pytree.tree_map(_narrow, tuple(call)))
        if not any(_is_complex(leaf) for leaf in pytree.tree_leaves(tuple(call))) and _cpu_computes(name, narrow):
            found[number] = narrow
    return found


def _narrow(leaf: Any) -> Any:
    if isinstance(leaf, torch.dtype):
        return torch.bfloat16 if leaf.is_floating_point else leaf
    return to_bfloat16(leaf) if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() else leaf


def _is_complex(leaf: Any) -> bool:
    if isinstance(leaf, torch.dtype):
        return leaf.is_complex
    return isinstance(leaf, complex) or (isinstance(leaf, torch.Tensor) and leaf.is_complex())


def _cpu_computes(name: str, call: Call) -> bool:
    module = Calls(name, [call])
    try:
        module(*module.tensors())
    except (RuntimeError, NotImplementedError):
        return False
    return True


class Function(nn.Module):
    def __init__(self, function: Callable[..., Any]):
        super().__init__()
        self.function = function

    def forward(self, *tensors: torch.Tensor) -> Any:
        return self.function(*tensors)


def check_call(name: str, call: Call) -> CompiledNetwork:
    """Compares every value that the call's code stores with what the graph computes."""
    module = Calls(name, [call])
    compiled = compile_model(module, module.tensors())
    check_network(compiled)
    return compiled


def check_function(function: Callable[..., Any], *tensors: torch.Tensor) -> CompiledNetwork:
    compiled = compile_model(Function(function), tensors)
    check_network(compiled, tensors)
    return compiled


@contextmanager
def recorded_kernels() -> Iterator[set[str]]:
    """Kernels of the launches that become code: "vector NAME" or "scalar NAME"."""
    used: set[str] = set()

    def recording(what: str, select: Callable[..., None]) -> Callable[..., None]:
        def call(selection: Any, launch: Any) -> None:
            select(selection, launch)
            used.add(f"{what} {launch.kernel}")

        return call

    vector, routine = recording("vector", generate._vector), recording("scalar", generate._routine)
    with mock.patch.object(generate, "_vector", vector), mock.patch.object(generate, "_routine", routine):
        yield used


@contextmanager
def scalar_core_only() -> Iterator[None]:
    """Every launch that was not fused becomes a routine of the scalar core."""

    def refuse(selection: Any, launch: Any) -> None:
        raise Unsupported("left to the scalar core")

    with mock.patch.object(generate, "_vector", refuse):
        yield
