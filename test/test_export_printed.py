# SPDX-License-Identifier: BSD-3-Clause
# ruff: noqa: E501
"""Printed forms of the stages, as goldens. EXPECTTEST_ACCEPT=1 rewrites them."""

from __future__ import annotations

import re

import models
import torch
from expecttest import TestCase

from torch_atalla.export import UnsupportedOpsError, compile_program
from torch_atalla.export.pipeline import Compiled
from torch_atalla.export.report import make_report


def compiled(name: str) -> Compiled:
    module, args = models.seed_models()[name]
    return compile_program(module, args)


class TestPrinted(TestCase):
    maxDiff = None

    def test_linear_program(self) -> None:
        self.assertExpectedInline(
            str(compiled("mlp").program),
            """\
input  i6 f32[8, 32]  x
   0  gemm                 t7 f32[1, 8, 64] <- i6 f32[1, 8, 32], w0 f32[1, 32, 64]{32, 1, 32}, w1 f32[1, 8, 64]{0, 0, 1}  f=[1.0, 1.0]  # linear
   1  pointwise.gelu_none  t8 f32[8, 64] <- t7 f32[8, 64]  # gelu
   2  gemm                 t9 f32[1, 8, 64] <- t8 f32[1, 8, 64], w2 f32[1, 64, 64]{64, 1, 64}, w3 f32[1, 8, 64]{0, 0, 1}  f=[1.0, 1.0]  # linear_1
   3  pointwise.relu       t10 f32[8, 64] <- t9 f32[8, 64]  # relu
   4  gemm                 o11 f32[1, 8, 10] <- t10 f32[1, 8, 64], w4 f32[1, 64, 10]{64, 1, 64}, w5 f32[1, 8, 10]{0, 0, 1}  f=[1.0, 1.0]  # linear_2
output o11 f32[8, 10]  linear_2""",
        )

    def test_linear_program_with_views_and_absent_operands(self) -> None:
        self.assertExpectedInline(
            str(compiled("vit_block").program),
            """\
input  i12 f32[2, 17, 64]  x
   0  layer_norm           t13 f32[34, 64], -, - <- i12 f32[34, 64], w0 f32[64], w1 f32[64]  f=[1e-05]  # layer_norm
   1  gemm                 t14 f32[1, 34, 192] <- t13 f32[1, 34, 64], w4 f32[1, 64, 192]{64, 1, 64}, w5 f32[1, 34, 192]{0, 0, 1}  f=[1.0, 1.0]  # linear
   2  attention            t15 f32[2, 4, 17, 16]{1088, 16, 64, 1}, - <- t14 f32[2, 4, 17, 16]{3264, 16, 192, 1}, t14 f32[2, 4, 17, 16]{3264, 16, 192, 1}+256, t14 f32[2, 4, 17, 16]{3264, 16, 192, 1}+512, -  f=[0.25]  # scaled_dot_product_attention
   3  gemm                 t16 f32[1, 34, 64] <- t15 f32[1, 34, 64], w6 f32[1, 64, 64]{64, 1, 64}, w7 f32[1, 34, 64]{0, 0, 1}  f=[1.0, 1.0]  # linear_1
   4  pointwise.add        t17 f32[2, 17, 64] <- i12 f32[2, 17, 64], t16 f32[2, 17, 64]  i=[1]  f=[1.0]  # add
   5  layer_norm           t18 f32[34, 64], -, - <- t17 f32[34, 64], w2 f32[64], w3 f32[64]  f=[1e-05]  # layer_norm_1
   6  gemm                 t19 f32[1, 34, 256] <- t18 f32[1, 34, 64], w8 f32[1, 64, 256]{64, 1, 64}, w9 f32[1, 34, 256]{0, 0, 1}  f=[1.0, 1.0]  # linear_2
   7  pointwise.gelu_none  t20 f32[2, 17, 256] <- t19 f32[2, 17, 256]  # gelu
   8  gemm                 t21 f32[1, 34, 64] <- t20 f32[1, 34, 256], w10 f32[1, 256, 64]{256, 1, 256}, w11 f32[1, 34, 64]{0, 0, 1}  f=[1.0, 1.0]  # linear_3
   9  pointwise.add        o22 f32[2, 17, 64] <- t17 f32[2, 17, 64], t21 f32[2, 17, 64]  i=[1]  f=[1.0]  # add_1
output o22 f32[2, 17, 64]  add_1""",
        )

    def test_memory_plan(self) -> None:
        self.assertExpectedInline(
            str(compiled("vit_block").plan),
            """\
arena 52224 bytes, lower bound 52224, without reuse 147968
       26112 +8704       [0, 1]  t13
           0 +26112      [1, 2]  t14
       26112 +8704       [2, 3]  t15
       34816 +8704       [3, 9]  t16 = t17
       43520 +8704       [5, 6]  t18
           0 +34816      [6, 8]  t19 = t20
       43520 +8704       [8, 9]  t21""",
        )

    def test_fallback(self) -> None:
        result = compile_program(models.SortInTheMiddle(), (torch.randn(3, 5),))
        self.assertExpectedInline(
            self.without_lines(f"{result.partition}\n{result.program}"),
            """\
segment 0 native: relu
segment 1 fallback: sort, getitem, getitem_1
segment 2 native: mul
not native: aten::sort.stable (float32), node sort at models.py:N: no native kernel
input  i0 f32[3, 5]  x
   0  pointwise.relu       t1 f32[3, 5] <- i0 f32[3, 5]  # relu
   1  host_call            t2 f32[3, 5], o3 i64[3, 5] <- t1 f32[3, 5]  ops aten::sort.stable
   2  pointwise.mul        o4 f32[3, 5] <- t2 f32[3, 5], 2:i64  # mul
output o4 f32[3, 5]  mul
output o3 i64[3, 5]  getitem_1""",
        )

    def test_passes(self) -> None:
        module, args = models.tiny_bert()
        self.assertExpectedInline(
            "\n".join(map(str, compile_program(module, args).passes)),
            """\
remove_identities: 9 nodes (clone, _assert_tensor_metadata, _assert_tensor_metadata_1, _assert_tensor_metadata_2, clone_1, clone_2, clone_3, clone_4, ...)
fold_constants: 11 nodes (gather, embedding_1, embedding_2, arange, arange_2, add_2, arange_3, add_3, ...)
merge_common_subexpressions: 0 nodes
remove_dead_code: 12 nodes (p_model_embeddings_position_embeddings_weight, p_model_embeddings_token_type_embeddings_weight, b_model_embeddings_position_ids, b_model_embeddings_token_type_ids, slice_1, expand, folded_gather, expand_1, ...)""",
        )

    def test_report(self) -> None:
        self.assertExpectedInline(
            str(make_report(compiled("relu_matmul_softmax"), path="model.atl")),
            """\
model       ReluMatmulSoftmax -> model.atl
coverage    100.0% of ops (3 of 3), 100.0% of FLOPs (1,024 of 1,024)
segments    1 native, 0 fallback
program     3 launches, 0 host calls
weights     1 tensors, 512 bytes
arena       384 bytes (at least 384 are needed, 384 without reuse)
file        0 bytes
estimate    not made""",
        )

    def test_unsupported(self) -> None:
        class Several(torch.nn.Module):
            def forward(self, x: torch.Tensor) -> tuple:
                return torch.sort(x, stable=True)[0], torch.fft.fft(x), torch.nonzero(x > 0).shape[0] + x

        with self.assertRaises(UnsupportedOpsError) as caught:
            compile_program(Several(), (torch.randn(3, 5),), fallback="error")
        self.assertExpectedInline(
            self.without_lines(str(caught.exception)),
            """\
fallback="error": 4 nodes cannot run on the chip:
  aten::sort.stable (float32), node sort at test_export_printed.py:N: no native kernel
  aten::_fft_r2c (float32), node _fft_r2c at test_export_printed.py:N: no native kernel
  aten::nonzero (bool), node nonzero at test_export_printed.py:N: dynamic output size
  aten::add.Tensor (float32), node add_3 at test_export_printed.py:N: depends on a dynamic size""",
        )

    @staticmethod
    def without_lines(text: str) -> str:
        """Line numbers of sources change when the tests do."""
        return re.sub(r"(\w+\.py):\d+", r"\1:N", text)
