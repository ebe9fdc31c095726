# SPDX-License-Identifier: BSD-3-Clause
# ruff: noqa: E501
"""Printed forms of the stages, as goldens. EXPECTTEST_ACCEPT=1 rewrites them."""

from __future__ import annotations

import re

import models
import torch
from expecttest import TestCase
from torch_version import recorded

from torch_atalla.compiler import UnsupportedOpsError, compile_program
from torch_atalla.compiler.file.report import make_report
from torch_atalla.compiler.targets.functional.pipeline import Compiled


def compiled(name: str) -> Compiled:
    module, args = models.seed_models()[name]
    return compile_program(module, args)


class TestPrinted(TestCase):
    maxDiff = None

    def test_linear_program(self) -> None:
        self.assertExpectedInline(
            str(compiled("mlp").program),
            """\
input  i4 f32[8, 32]  x
   0  gemm_packed          t5 f32[8, 64] <- i4 f32[8, 32], w8 f32[2, 32, 32], w0 f32[8, 64]{0, 1}, w10 i64[6]  i=[1]  {v1 = gelu_none.f32 v0 -> v1}  # gelu
   1  gemm_packed          t6 f32[8, 64] <- t5 f32[8, 64], w9 f32[2, 64, 32], w1 f32[8, 64]{0, 1}, w10 i64[6]+64  i=[1]  {v1 = relu.f32 v0 -> v1}  # relu
   2  gemm                 o7 f32[1, 8, 10]{0, 10, 1} <- t6 f32[1, 8, 64]{0, 64, 1}, w2 f32[1, 64, 10]{0, 1, 64}, w3 f32[1, 8, 10]{0, 0, 1}  i=[1, 1]  f=[1.0, 1.0]  # linear_2
output o7 f32[8, 10]  linear_2""",
        )

    def test_linear_program_with_views_and_absent_operands(self) -> None:
        self.assertExpectedInline(
            str(compiled("vit_block").program),
            """\
input  i8 f32[2, 17, 64]  x
   0  layer_norm           t9 f32[34, 64], -, - <- i8 f32[34, 64], w0 f32[64], w1 f32[64]  f=[1e-05]  # layer_norm
   1  gemm_packed          t10 f32[34, 192] <- t9 f32[34, 64], w16 f32[6, 64, 32], w4 f32[34, 192]{0, 1}  # linear
   2  attention            t11 f32[2, 4, 17, 16]{1088, 16, 64, 1}, - <- t10 f32[2, 4, 17, 16]{3264, 16, 192, 1}, t10 f32[2, 4, 17, 16]{3264, 16, 192, 1}+256, t10 f32[2, 4, 17, 16]{3264, 16, 192, 1}+512, -  f=[0.25]  # scaled_dot_product_attention
   3  gemm_packed          t12 f32[34, 64] <- t11 f32[34, 64], w17 f32[2, 64, 32], w5 f32[34, 64]{0, 1}, i8 f32[34, 64], w20 i64[9]  i=[1]  {v2 = add.f32 v1 v0 (1) -> v2}  # add
   4  layer_norm           t13 f32[34, 64], -, - <- t12 f32[34, 64], w2 f32[64], w3 f32[64]  f=[1e-05]  # layer_norm_1
   5  gemm_packed          t14 f32[34, 256] <- t13 f32[34, 64], w18 f32[8, 64, 32], w6 f32[34, 256]{0, 1}, w20 i64[6]+128  i=[1]  {v1 = gelu_none.f32 v0 -> v1}  # gelu
   6  gemm_packed          o15 f32[34, 64] <- t14 f32[34, 256], w19 f32[2, 256, 32], w7 f32[34, 64]{0, 1}, t12 f32[34, 64], w20 i64[9]  i=[1]  {v2 = add.f32 v1 v0 (1) -> v2}  # add_1
output o15 f32[2, 17, 64]  add_1""",
        )

    def test_memory_plan(self) -> None:
        self.assertExpectedInline(
            str(compiled("vit_block").plan),
            """\
arena 52224 bytes, lower bound 52224, without reuse 95744
       26112 +8704       [0, 1]  t9
           0 +26112      [1, 2]  t10
       26112 +8704       [2, 3]  t11
       34816 +8704       [3, 6]  t12
       43520 +8704       [4, 5]  t13
           0 +34816      [5, 6]  t14""",
        )

    def test_fallback(self) -> None:
        result = compile_program(models.HostOpInTheMiddle(), (torch.randn(3, 5),))
        self.assertExpectedInline(
            self.without_lines(f"{result.partition}\n{result.program}"),
            """\
segment 0 native: relu
segment 1 fallback: aminmax, getitem, getitem_1
segment 2 native: mul
not native: atalla_test::aminmax.dim (float32), node aminmax at models.py:N: no native kernel
input  i0 f32[3, 5]  x
   0  pointwise.relu       t1 f32[3, 5] <- i0 f32[3, 5]  # relu
   1  host_call            t2 f32[3, 1], o3 f32[3, 1] <- t1 f32[3, 5]  ops atalla_test::aminmax.dim
   2  pointwise.mul        o4 f32[3, 1] <- t2 f32[3, 1], 2:i64  # mul
output o4 f32[3, 1]  mul
output o3 f32[3, 1]  getitem_1""",
        )

    @recorded
    def test_passes(self) -> None:
        module, args = models.tiny_bert()
        self.assertExpectedInline(
            "\n".join(map(str, compile_program(module, args).passes)),
            """\
remove_identities: 13 nodes (expand, clone, _assert_tensor_metadata, _assert_tensor_metadata_1, _assert_tensor_metadata_2, expand_2, view_3, clone_1, ...)
narrow_masks: 0 nodes
fold_constants: 15 nodes (gather, embedding_1, embedding_2, arange, arange_2, add_2, arange_3, add_3, ...)
merge_common_subexpressions: 6 nodes (folded_add_3, unsqueeze_9, unsqueeze_10, folded_scalar_tensor_2, folded_scalar_tensor_3, where_1)
simplify_masks: 0 nodes
merge_heads: 0 nodes
split_rotary: 0 nodes
split_batch_norm: 0 nodes
remove_dead_code: 8 nodes (p_model_embeddings_position_embeddings_weight, p_model_embeddings_token_type_embeddings_weight, b_model_embeddings_position_ids, b_model_embeddings_token_type_ids, slice_1, folded_gather, expand_1, unsqueeze_8)
pack_weights: 12 nodes (p_model_encoder_layer_0_attention_self_query_weight, p_model_encoder_layer_0_attention_self_key_weight, p_model_encoder_layer_0_attention_self_value_weight, p_model_encoder_layer_0_attention_output_dense_weight, p_model_encoder_layer_0_intermediate_dense_weight, p_model_encoder_layer_0_output_dense_weight, p_model_encoder_layer_1_attention_self_query_weight, p_model_encoder_layer_1_attention_self_key_weight, ...)
fuse_reductions: 1 nodes (mul)
fuse_pointwise: 2 nodes (add, bitwise_and_1)
fuse_epilogues: 6 nodes (add_4, gelu, add_5, add_6, gelu_1, add_7)
store_programs: 9 nodes (add_1, where, add_4, gelu, add_5, add_6, gelu_1, add_7, ...)
remove_unused_buffers: 0 nodes""",
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

    @recorded
    def test_unsupported(self) -> None:
        class Several(torch.nn.Module):
            def forward(self, x: torch.Tensor) -> tuple:
                return (
                    models.add_relu(x, 0.1),
                    torch.rand(3),
                    torch.unique(x, dim=0).shape[0] + x,
                )

        with self.assertRaises(UnsupportedOpsError) as caught:
            compile_program(Several(), (torch.randn(3, 5),), fallback="error")
        self.assertExpectedInline(
            self.without_lines(str(caught.exception)),
            """\
fallback="error": 3 nodes cannot run on the chip:
  atalla_test::add_relu.Scalar (float32), node add_relu at test_export_printed.py:N: no native kernel
  aten::unique_dim (float32), node unique_dim at test_export_printed.py:N: unique_dim (aten.unique_dim.default): distinct slices; expected distinct elements (dim=None)
  aten::add.Tensor (float32), node add_5 at test_export_printed.py:N: depends on a dynamic size""",
        )

    @staticmethod
    def without_lines(text: str) -> str:
        """Line numbers of sources change when the tests do."""
        return re.sub(r"(\w+\.py):\d+", r"\1:N", text)
