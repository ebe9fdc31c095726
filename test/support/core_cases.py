# SPDX-License-Identifier: BSD-3-Clause
"""A call of every op that native_functions.yaml tags `core`: overload -> arguments, keyword arguments."""

from __future__ import annotations

from typing import Any

import torch

from tools.codegen.model import upstream

torch.manual_seed(0)
X = torch.randn(3, 4)
Y = torch.randn(3, 4)
P = torch.rand(3, 4) * 0.8 + 0.1  # in (0, 1)
ABOVE_ONE = P + 1
I = torch.arange(12).reshape(3, 4)  # noqa: E741
J = torch.tensor([[3, 1, 2, 5]])
B = X > 0
SEQUENCE = torch.randn(2, 3, 8)
IMAGE = torch.randn(2, 4, 8, 8)
VOLUME = torch.randn(1, 2, 4, 6, 6)
KERNEL, BIAS = torch.randn(6, 4, 3, 3), torch.randn(6)
C, M, V = torch.randn(4), torch.rand(4), torch.rand(4) + 0.5
ROWS = torch.tensor([2, 0, 2])
INDEX = torch.tensor([[0, 1, 2, 1], [2, 0, 0, 2]])
POOLED, WINNERS = torch.max_pool2d(IMAGE, 2), torch.nn.functional.max_pool2d(IMAGE, 2, return_indices=True)[1]
NORMED = torch.ops.aten.native_layer_norm(X, (4,), C, C, 1e-5)
GROUPED = torch.ops.aten.native_group_norm(IMAGE, C, C, 2, 4, 64, 2, 1e-5)
HALF_SPECTRUM = torch.fft.rfft(SEQUENCE)
GRID = torch.rand(2, 5, 5, 2) * 2 - 1
ON = {"device": "cpu"}  # to_device turns it into the device

UNARY = (
    "abs acos asin asinh atan atanh ceil cos cosh erf exp expm1 floor gelu isinf isnan log log10 log1p log2 "
    "logical_not neg reciprocal relu round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc leaky_relu elu hardtanh"
).split()
COMPARISONS = "eq ne lt le gt ge".split()

# overload -> arguments, keyword arguments
CASES: dict[str, tuple[tuple, dict[str, Any]]] = {name: ((P,), {}) for name in UNARY}
CASES |= {f"{name}.Tensor": ((I, J), {}) for name in COMPARISONS}
CASES |= {f"{name}.Scalar": ((I, 5), {}) for name in COMPARISONS}
CASES |= {f"bitwise_{name}.Tensor": ((I, J), {}) for name in ("and", "or", "xor")}
CASES |= {f"bitwise_{name}.Scalar": ((I, 5), {}) for name in ("and", "or", "xor")}
CASES |= {f"logical_{name}": ((B, I), {}) for name in ("and", "or", "xor")}
CASES |= {f"{name}.Tensor": ((X, Y), {}) for name in ("add", "sub", "mul", "div", "fmod", "remainder")}
CASES |= {f"{name}.Scalar": ((X, 1.5), {}) for name in ("add", "sub", "mul", "div", "fmod", "remainder")}
CASES |= {
    "_adaptive_avg_pool2d": ((IMAGE, (3, 3)), {}),
    "_adaptive_avg_pool2d_backward": ((torch.randn(2, 4, 3, 3), IMAGE), {}),
    "_adaptive_avg_pool3d": ((VOLUME, (2, 3, 3)), {}),
    "_cdist_forward": ((X, Y, 2.0, None), {}),
    "_embedding_bag": ((X, ROWS, torch.tensor([0, 2])), {}),
    "_fft_c2r": ((HALF_SPECTRUM, [2], 2, 8), {}),
    "_fft_r2c": ((SEQUENCE, [2], 0, True), {}),
    "_local_scalar_dense": ((X[0, 0],), {}),
    "_log_softmax": ((X, 1, False), {}),
    "_native_batch_norm_legit": ((IMAGE, C, C, M, V, True, 0.1, 1e-5), {}),
    "_native_batch_norm_legit.no_stats": ((IMAGE, C, C, True, 0.1, 1e-5), {}),
    "_native_batch_norm_legit_no_training": ((IMAGE, C, C, M, V, 0.1, 1e-5), {}),
    "_pdist_forward": ((X, 2.0), {}),
    "_softmax": ((X, 1, False), {}),
    "_to_copy": ((X,), {"dtype": torch.int32}),
    "acosh": ((ABOVE_ONE,), {}),
    "adaptive_avg_pool1d": ((SEQUENCE, [4]), {}),
    "addmm": ((C, X, torch.randn(4, 4)), {}),
    "alias": ((X,), {}),
    "amax": ((X, [1]), {}),
    "amin": ((X, [0], True), {}),
    "any": ((B,), {}),
    "any.dim": ((B, 1), {}),
    "any.dims": ((B, [0, 1]), {}),
    "arange.start_step": ((1, 9, 2), ON),
    "argmax": ((X, 1), {}),
    "argmin": ((X,), {}),
    "as_strided": ((X, (2, 2), (4, 1), 1), {}),
    "atan2": ((X, Y), {}),
    "atan2.out": ((X, Y), {"out": torch.empty(3, 4)}),
    "avg_pool1d": ((SEQUENCE, [2]), {}),
    "avg_pool2d": ((IMAGE, [2, 2]), {}),
    "avg_pool2d_backward": ((torch.randn(2, 4, 4, 4), IMAGE, [2, 2], [2, 2], [0, 0], False, True, None), {}),
    "avg_pool3d": ((VOLUME, [2, 2, 2]), {}),
    "bitwise_not": ((I,), {}),
    "bmm": ((SEQUENCE, SEQUENCE.mT.contiguous()), {}),
    "cat": (([X, Y], 1), {}),
    "clamp": ((X, -0.5, 0.5), {}),
    "clamp.Tensor": ((X, -P, P), {}),
    "clone": ((X,), {}),
    "col2im": ((torch.randn(2, 12, 9), [4, 4], [2, 2], [1, 1], [0, 0], [1, 1]), {}),
    "constant_pad_nd": ((X, [1, 2], 3.0), {}),
    "convolution": ((IMAGE, KERNEL, BIAS, [1, 1], [1, 1], [1, 1], False, [0, 0], 1), {}),
    "convolution_backward": (
        (torch.randn(2, 6, 8, 8), IMAGE, KERNEL, [6], [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [True, True, True]),
        {},
    ),
    "copy": ((X, Y), {}),
    "cumsum": ((X, 1), {}),
    "diagonal": ((X,), {}),
    "div.Scalar_mode": ((X, 0.3), {"rounding_mode": "floor"}),
    "div.Tensor_mode": ((X, P), {"rounding_mode": "trunc"}),
    "embedding": ((X, ROWS), {}),
    "embedding_dense_backward": ((torch.randn(3, 4), ROWS, 3, -1, False), {}),
    "empty.memory_format": (([2, 3],), ON),
    "empty_strided": (([2, 3], [1, 2]), ON),
    "expand": ((C, [3, 4]), {}),
    "fill.Scalar": ((X, 2.0), {}),
    "flip": ((X, [0, 1]), {}),
    "full": (([2, 3], 1.5), ON),
    "full_like": ((X, 1.5), {}),
    "gather": ((X, 0, INDEX), {}),
    "grid_sampler_2d": ((IMAGE, GRID, 0, 0, False), {}),
    "index.Tensor": ((X, [ROWS, None]), {}),
    "index_put": ((X, [torch.tensor([0, 2])], torch.randn(2, 4)), {}),
    "index_select": ((X, 0, ROWS), {}),
    "masked_scatter": ((X, B, Y), {}),
    "max.dim": ((X, 1), {}),
    "max_pool2d_with_indices": ((IMAGE, [2, 2]), {}),
    "max_pool2d_with_indices_backward": (
        (torch.randn_like(POOLED), IMAGE, [2, 2], [2, 2], [0, 0], [1, 1], False, WINNERS),
        {},
    ),
    "max_pool3d_with_indices": ((VOLUME, [2, 2, 2]), {}),
    "maximum": ((X, Y), {}),
    "mean": ((X,), {}),
    "mean.dim": ((X, [1]), {}),
    "min.dim": ((X, 0, True), {}),
    "minimum": ((X, Y), {}),
    "mm": ((X, torch.randn(4, 5)), {}),
    "native_dropout": ((X, 0.5, True), {}),
    "native_group_norm": ((IMAGE, C, C, 2, 4, 64, 2, 1e-5), {}),
    "native_group_norm_backward": (
        (torch.randn_like(IMAGE), IMAGE, GROUPED[1], GROUPED[2], C, 2, 4, 64, 2, [True, True, True]),
        {},
    ),
    "native_layer_norm": ((X, [4], C, C, 1e-5), {}),
    "native_layer_norm_backward": ((Y, X, [4], NORMED[1], NORMED[2], C, C, [True, True, True]), {}),
    "nonzero": ((B,), {}),
    "permute": ((SEQUENCE, [2, 0, 1]), {}),
    "pow.Scalar": ((2.0, X), {}),
    "pow.Tensor_Scalar": ((P, 2.5), {}),
    "pow.Tensor_Tensor": ((P, X), {}),
    "prod": ((X,), {}),
    "prod.dim_int": ((X, 1), {}),
    "rand": (([2, 3],), ON),
    "randn": (([2, 3],), ON),
    "randperm": ((7,), ON),
    "reflection_pad1d": ((SEQUENCE, [2, 1]), {}),
    "reflection_pad2d": ((IMAGE, [1, 2, 3, 1]), {}),
    "reflection_pad3d": ((VOLUME, [1, 2, 1, 1, 2, 1]), {}),
    "repeat": ((X, [2, 1, 3]), {}),
    "replication_pad2d": ((IMAGE, [1, 2, 3, 1]), {}),
    "replication_pad3d": ((VOLUME, [1, 2, 1, 1, 2, 1]), {}),
    "resize_": ((torch.zeros(4, 4), [2, 3]), {}),
    "scalar_tensor": ((2.5,), ON),
    "scatter.src": ((X, 0, INDEX, torch.randn(2, 4)), {}),
    "scatter.value": ((X, 0, INDEX, 3.0), {}),
    "scatter_add": ((X, 0, INDEX, torch.randn(2, 4)), {}),
    "scatter_reduce.two": ((X, 0, INDEX, torch.randn(2, 4), "amax"), {}),
    "select.int": ((X, 1, 2), {}),
    "select_scatter": ((X, C, 0, 1), {}),
    "slice.Tensor": ((X, 1, 0, 4, 2), {}),
    "slice_scatter": ((X, torch.randn(3, 2), 1, 0, 4, 2), {}),
    "sort": ((X, 1, True), {}),
    "split_with_sizes": ((X, [1, 3], 1), {}),
    "squeeze.dim": ((X[:1], 0), {}),
    "squeeze.dims": ((X[:1], [0]), {}),
    "sum.dim_IntList": ((X, [0]), {}),
    "sym_is_contiguous": ((X,), {}),
    "sym_numel": ((X,), {}),
    "sym_size.int": ((X, 1), {}),
    "sym_storage_offset": ((X[1:],), {}),
    "sym_stride.int": ((X, 0), {}),
    "topk": ((X, 2, 1), {}),
    "unsqueeze": ((X, 1), {}),
    "upsample_bilinear2d.vec": ((IMAGE, None, False, [1.5, 2.0]), {}),
    "upsample_nearest2d.vec": ((IMAGE, [12, 5], None), {}),
    "var.correction": ((X, [1]), {"correction": 0}),
    "var.dim": ((X, [0]), {}),
    "view": ((X, [2, 6]), {}),
    "where.self": ((B, X, Y), {}),
}  # fmt: skip

# Drawn at random or not initialised: only the shape can be compared.
SHAPE_ONLY = {"empty.memory_format", "empty_strided", "native_dropout", "rand", "randn", "randperm", "resize_"}


def tagged() -> set[str]:
    functions, _ = upstream()
    return {name for name, f in functions.items() if "core" in f.tags}


def op(name: str) -> Any:
    base, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, base), overload or "default")
