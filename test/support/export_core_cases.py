# SPDX-License-Identifier: BSD-3-Clause
"""Further arguments of ops that loadables run natively: other dtypes, layouts and options; name -> (op, case)."""

from __future__ import annotations

from typing import Any

import torch
from core_cases import GRID, IMAGE, INDEX, ROWS, SEQUENCE, VOLUME, B, C, I, J, P, V, X, Y

H = X.half()
F = X.bfloat16()
INNERMOST = torch.randn(2, 5, 6, 6).to(memory_format=torch.channels_last)
PIXELS = torch.randint(0, 255, (1, 3, 6, 5), dtype=torch.uint8)
Z = torch.randn(3, 4, dtype=torch.complex64)
SMALL = torch.tensor([[0, 2, 2, 1]])
COLUMNS = torch.randn(9, 12).t()
MANY = torch.randn(90, 60)
NUMBERS = {"bitwise_and": 6, "bitwise_or": 6, "bitwise_xor": 6, "remainder": -3, "fmod": 3}


def case(*args: Any, **kwargs: Any) -> tuple[tuple, dict[str, Any]]:
    return args, kwargs


MORE: dict[str, tuple[str, Any]] = {
    **{f"{name} by a number": (f"{name}.Scalar", case(I, number)) for name, number in NUMBERS.items()},
    "bitwise_and of bools": ("bitwise_and.Scalar", case(B, True)),
    "number and tensor": ("bitwise_or.Scalar_Tensor", case(5, I)),
    "number modulo tensor": ("remainder.Scalar_Tensor", case(7, J)),
    "half modulo number": ("remainder.Scalar", case(H, 0.7)),
    "floor division of integers": ("div.Scalar_mode", case(I, 5, rounding_mode="floor")),
    "division without rounding": ("div.Scalar_mode", case(I, 5, rounding_mode=None)),
    "power of one": ("pow.Scalar", case(1, X)),
    "integer power": ("pow.Scalar", case(2, SMALL)),
    "half power": ("pow.Scalar", case(2.5, H)),
    "clamp from below": ("clamp.Tensor", case(X, P)),
    "clamp from above, broadcast": ("clamp.Tensor", case(I, None, J)),
    "infinite": ("isinf", case(torch.tensor([1.0, float("inf"), -float("inf"), float("nan")]).bfloat16())),
    "infinite integers": ("isinf", case(I)),
    "flip of halves": ("flip", case(VOLUME.half(), [1, -1])),
    "flip of a transpose": ("flip", case(I.t(), [0])),
    "flip of complex numbers": ("flip", case(Z, [1])),
    "roll": ("roll", case(X, [1, -5], [0, 1])),
    "roll of all": ("roll", case(I.t(), [2])),
    "scatter of bools": ("scatter.value", case(B, 1, ROWS[:, None], True)),
    "scatter from a larger source": ("scatter.src", case(I, 0, INDEX, I + 5)),
    "scatter of nothing": ("scatter.src", case(X, 0, INDEX[:0], Y)),
    "scatter into a number": ("scatter.src", case(X[0, 0], 0, ROWS[1], Y[0, 0])),
    "scatter product": ("scatter.reduce", case(H, 0, INDEX, Y.half(), reduce="multiply")),
    "scatter of sums": ("scatter.value_reduce", case(F, 0, INDEX, 0.7, reduce="add")),
    "scatter_add of halves": ("scatter_add", case(H, 0, INDEX, (Y * 9).half())),
    "scatter_add of integers": ("scatter_add", case(I.int(), 1, SMALL, I[:1].int())),
    **{
        f"{name} {reduce}{'' if include else ', without self'}": (
            "scatter_reduce.two", case(self, 0, INDEX, source, reduce, include_self=include))
        for name, self, source in (("half", H, Y.half()), ("float", X, Y), ("integer", I, I - 4))
        for reduce in ("sum", "prod", "mean", "amax", "amin")
        for include in (True, False)
    },
    "index_add": ("index_add", case(X, 0, ROWS, Y, alpha=0.3)),
    "index_add of halves": ("index_add", case(H, 0, ROWS, Y.half())),
    "index_copy": ("index_copy", case(I, 1, torch.tensor([2, 0]), I[:, :2] + 9)),
    "index_put sums": ("index_put", case(H, [ROWS], H, True)),
    "one value under a mask": ("index_put", case(H, [B], Y[0, :1].half())),
    "one value for the rows of a mask": ("index_put", case(I, [B[:, 0]], I[2, 3])),
    "one value for the columns of a mask": ("index_put", case(I, [None, B[0]], I[2, 3])),
    "masked_scatter of a broadcast": ("masked_scatter", case(I[:1], B, I + 7)),
    "masked_scatter of a row mask": ("masked_scatter", case(H, B[:, :1], Y.half())),
    "masked_scatter of many": ("masked_scatter", case(MANY, MANY > 0, MANY + 5)),
    "group norm of halves": ("native_group_norm", case(IMAGE.half(), C.half(), None, 2, 4, 64, 2, 1e-5)),
    "group norm, float32 weights": ("native_group_norm", case(IMAGE.bfloat16(), C, V, 2, 4, 64, 4, 1e-5)),
    "group norm of doubles": ("native_group_norm", case(SEQUENCE.double(), None, None, 2, 3, 8, 1, 1e-3)),
    "batch norm of halves": ("_native_batch_norm_legit.no_stats", case(IMAGE.half(), C, V, True, 0.1, 1e-5)),
    "batch norm, channels innermost": ("_native_batch_norm_legit.no_stats", case(INNERMOST, None, None, True, 0, 1e-5)),
    "running statistics": ("_native_batch_norm_legit_functional", case(IMAGE, C, None, C, V, True, 0.3, 1e-5)),
    "running statistics of halves": ("_native_batch_norm_legit_functional",
                                     case(SEQUENCE.bfloat16(), C[:3], C[:3], C[:3], V[:3], True, 0.3, 1e-5)),
    "average without padding": ("avg_pool3d", case(VOLUME[0], [2, 3, 2], [1, 2, 2], [1, 1, 0], True, False)),
    "average with a divisor": ("avg_pool3d", case(VOLUME.double(), [2], [], [0], False, True, 3)),
    "average of integers": ("avg_pool2d", case(torch.arange(-20, 44).view(1, 8, 8), [3, 2])),
    "maximum of halves": ("max_pool3d_with_indices", case(VOLUME.half(), [2, 3, 2], [2, 1, 2], [1], [1, 2, 1], True)),
    "maximum of integers": ("max_pool3d_with_indices", case(torch.arange(64).view(1, 4, 4, 4), [2])),
    "adaptive average of halves": ("_adaptive_avg_pool3d", case(VOLUME.half(), [3, 4, 1])),
    "adaptive maximum": ("adaptive_max_pool2d", case(IMAGE, [3, 5])),
    "adaptive maximum of halves": ("adaptive_max_pool3d", case(VOLUME.bfloat16(), [3, 2, 4])),
    "nearest by scales": ("upsample_nearest2d.vec", case(INNERMOST, None, [1.7, 0.6])),
    "nearest of a large image": ("upsample_nearest2d.vec", case(IMAGE[:1, :1].half(), [100, 50], None)),
    "nearest of pixels": ("_upsample_nearest_exact2d.vec", case(PIXELS, [9, 4], None)),
    "nearest of a sequence": ("upsample_nearest1d.vec", case(SEQUENCE, [11], None)),
    "exact nearest of a sequence": ("_upsample_nearest_exact1d.vec", case(SEQUENCE, None, [1.3])),
    "nearest of a volume": ("upsample_nearest3d.vec", case(VOLUME, [6, 5, 9], None)),
    "exact nearest of a volume": ("_upsample_nearest_exact3d.vec", case(VOLUME.half(), None, [0.7, 1.5, 1.3])),
    "bilinear of pixels": ("upsample_bilinear2d.vec", case(PIXELS, [9, 4], True, None)),
    "linear": ("upsample_linear1d.vec", case(SEQUENCE, [11], False, None)),
    "trilinear": ("upsample_trilinear3d.vec", case(VOLUME.half(), None, True, [1.5, 2.0, 0.5])),
    "bicubic": ("upsample_bicubic2d.vec", case(IMAGE, [5, 11], False, None)),
    "bilinear, antialiased": ("_upsample_bilinear2d_aa.vec", case(IMAGE, [5, 3], False, None)),
    "bicubic, antialiased": ("_upsample_bicubic2d_aa.vec", case(IMAGE, None, False, [0.6, 0.4])),
    "cubic samples, reflected": ("grid_sampler_2d", case(IMAGE, GRID * 1.5, 2, 2, True)),
    "samples of halves": ("grid_sampler_2d", case(IMAGE.half(), GRID.half(), 1, 1, False)),
    "samples of a volume": ("grid_sampler_3d", case(VOLUME, torch.rand(1, 2, 3, 4, 3) * 2 - 1, 1, 1, False)),
    "reflection of integers": ("reflection_pad1d", case(I, [3, -1])),
    "replication": ("replication_pad1d", case(H, [2, 3])),
    "replication of halves": ("replication_pad2d", case(IMAGE[0].half(), [-1, 2, 0, 3])),
    "im2col": ("im2col", case(IMAGE, [3, 2], [1, 2], [1, 0], [2, 1])),
    "im2col of one image": ("im2col", case(IMAGE[0].half(), [2, 2], [1, 1], [0, 1], [1, 3])),
    "col2im of one image": ("col2im", case(COLUMNS.half(), [4, 4], [2, 2], [1, 1], [0, 0], [1, 1])),
    "distances of a broadcast batch": ("_cdist_forward", case(SEQUENCE, torch.randn(4, 1, 5, 8), 1.5, 2)),
    "distances of doubles": ("_pdist_forward", case(X.double(), float("inf"))),
    "transform of an image": ("_fft_r2c", case(IMAGE, [2, 1, 3], 1, True)),
    "two-sided transform": ("_fft_r2c", case(SEQUENCE.double(), [1], 2, False)),
    "complex transform": ("_fft_c2c", case(Z, [0, 1], 1, False)),
    "inverse of several dimensions": ("_fft_c2r", case(Z, [0, 1], 2, 7)),
    "magnitudes": ("abs", case(Z)),
    "part of nothing": ("constant_pad_nd", case(X[:0], [1, 2], 2.0)),
    "complex zeros": ("full_like", case(Z, 0.5)),
    "complex pad": ("constant_pad_nd", case(Z, [1, 0, 2, 1], 1.5)),
    "complex reflection": ("reflection_pad1d", case(Z, [2, 1])),
    "complex sums by index": ("scatter_add", case(Z, 0, INDEX, Z)),
    "complex rows": ("index_add", case(Z, 0, ROWS, Z, alpha=2)),
    "complex elements": ("index_put", case(Z, [ROWS, ROWS], Z[0, :3])),
    "complex picks": ("gather", case(Z, 0, INDEX)),
    "complex masks": ("masked_scatter", case(Z, B, Z * 2)),
    "complex columns": ("im2col", case(Z[None], [2, 2], [1, 1], [0, 1], [1, 1])),
    "means of bags": ("_embedding_bag", case(X, ROWS, torch.tensor([0, 2, 2]), False, 1)),
    "maxima of bags": ("_embedding_bag", case(H, ROWS.int(), torch.tensor([0, 1]), False, 2, False, None, False, 1)),
    "weighted bags": ("_embedding_bag", case(X, ROWS, torch.tensor([0, 1, 3]), False, 0, False, C[:3], True)),
    "counted repetition": ("repeat_interleave.Tensor", case(ROWS, output_size=4)),
}  # fmt: skip
