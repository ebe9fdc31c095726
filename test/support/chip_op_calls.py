# SPDX-License-Identifier: BSD-3-Clause
"""The example calls of ops as chip code: floating tensors become bfloat16."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from example_calls import SHAPE_ONLY, Call, core_overloads
from op_programs import NO_PROGRAM, NOT_LOWERED, Calls, calls_of, programs
from torch import nn
from torch.utils import _pytree as pytree

from torch_atalla.compiler.capture.narrow import to_bfloat16
from torch_atalla.compiler.targets.chip import generate
from torch_atalla.compiler.targets.chip.build import CompiledNetwork, compile_model
from torch_atalla.compiler.targets.chip.check import check_network
from torch_atalla.compiler.targets.chip.kernels.pointwise import Unsupported

# Ops whose calls together run every selector and every routine that an example call reaches; the fast suite has only
# these. To choose them again: run all calls with `recorded_kernels`, and take those that add the most kernels.
FAST = """
_native_batch_norm_legit_no_training _native_batch_norm_legit_functional
_adaptive_avg_pool3d _log_softmax _upsample_nearest_exact2d.vec abs acos acosh adaptive_max_pool3d all argmax
argmin asin asinh atan atan2 atanh avg_pool2d binary_cross_entropy bitwise_and.Scalar_Tensor bitwise_or.Tensor
bitwise_xor.Tensor bmm ceil clamp.Tensor col2im convolution cos cosh cummax cummin cumprod div.Scalar_mode
div.Tensor elu embedding_dense_backward erf exp expm1 flip floor fmod.Tensor gather glu gt.Tensor histc
huber_loss im2col index.Tensor index_select isnan layer_norm le.Scalar linalg_vector_norm log log10 log1p log2
logcumsumexp logical_and logical_not logical_or logical_xor logsumexp max max.dim max_pool3d_with_indices
maximum min min.dim minimum mse_loss mul.Tensor nansum native_group_norm native_layer_norm neg
nll_loss2d_forward pow.Tensor_Scalar pow.Tensor_Tensor prod.dim_int reciprocal reflection_pad2d relu
remainder.Tensor repeat_interleave.Tensor replication_pad1d rms_norm roll round rsqrt
scaled_dot_product_attention scatter_reduce.two sigmoid sign sin sinh smooth_l1_loss sort sqrt
std_mean.correction sub.Tensor sum tan tanh topk triu trunc upsample_bicubic2d.vec upsample_trilinear3d.vec
var.correction
""".split()


def names() -> list[str]:
    """Ops with a lowering whose results are determined."""
    return sorted((programs() | core_overloads()) - set(NOT_LOWERED) - set(NO_PROGRAM) - SHAPE_ONLY)


def chip_calls(name: str) -> dict[int, Call]:
    """The op's calls that the CPU computes in bfloat16, by their numbers."""
    found = {}
    for number, call in enumerate(calls_of(name)):
        narrow = Call(*pytree.tree_map(_narrow, tuple(call)))
        if not any(_is_complex(leaf) for leaf in pytree.tree_leaves(tuple(call))) and _cpu_computes(name, narrow):
            found[number] = narrow
    return found


def fast_calls(name: str) -> list[Call]:
    """The first call of each dtype whose tensors have elements: no elements, no launch."""
    calls = [call for call in chip_calls(name).values() if call.tensors()]
    full = [call for call in calls if all(tensor.numel() for tensor in call.tensors())]
    return list({call.tensors()[0].dtype: call for call in reversed(full)}.values())


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
