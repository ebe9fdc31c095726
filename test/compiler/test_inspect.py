# SPDX-License-Identifier: BSD-3-Clause
# ruff: noqa: E501
"""The printed form of a loadable, as goldens. EXPECTTEST_ACCEPT=1 rewrites them."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import models
import torch
from expecttest import TestCase
from torch import nn

from torch_atalla import save_loadable
from torch_atalla.loadable.description import describe, render


def printed(module: nn.Module, args: tuple) -> str:
    """What depends on the timing model or on the place of a line in a test file is masked."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.atl"
        save_loadable(module, path, args=args)
        text = render(describe(str(path)))
    text = re.sub(r"(\w+\.py):\d+", r"\1:N", text)
    text = re.sub(r"(?m)^(written by .*, torch ).*$", r"\1N", text)
    text = re.sub(r"(estimate +)[\d,]+ cycles, [\d.]+ [nµm]J", r"\1N cycles, N J", text)
    text = re.sub(r"(?m)^(file +)[\d,]+ bytes", r"\1N bytes", text)
    text = re.sub(r"(?m)^(  \w+ +)[\d,]+ +[\d,]+( +\d*)  [0-9a-f]{8}$", r"\1...\2", text)
    return re.sub(r"(?m) +$", "", text)


class TestInspect(TestCase):
    maxDiff = None

    def test_native(self) -> None:
        self.assertExpectedInline(
            printed(*models.seed_models()["relu_matmul_softmax"]),
            """\
model       ReluMatmulSoftmax
format      1.5, needs driver 1.0
written by  torch_atalla 0.2.0, torch N
file        N bytes
estimate    N cycles, N J

sections
  kind                offset         bytes  records  crc32c
  strings                ...
  integers             ...       26
  doubles              ...       67
  kernels              ...        3
  storages             ...        5
  values               ...        6
  operands             ...        8
  instructions         ...        3
  inputs               ...        1
  outputs              ...        1
  nodes                ...        3
  segments             ...        1
  methods              ...        1
  metadata             ...       12
  goldens              ...        1
  weights              ...

interface
  input   i1 f32[4, 8]  x
  output  o4 f32[4, 16]  _softmax

graph
  segment native_0: 3 nodes, 3 instructions
    relu                    aten::relu  models.py:N
    mm                      aten::mm  1,024 FLOPs  models.py:N
    _softmax                aten::_softmax  models.py:N

linear program
     0  pointwise.relu          t2 f32[4, 8] <- i1 f32[4, 8]  # relu models.py:N
     1  gemm                    t3 f32[1, 4, 16]{0, 16, 1} <- t2 f32[1, 4, 8]{0, 8, 1}, w0 f32[1, 8, 16]{0, 16, 1}, -  i=[1]  f=[1]  # mm models.py:N
     2  softmax                 o4 f32[4, 16] <- t3 f32[4, 16]  i=[1]  # _softmax models.py:N

memory plan
  arena of 384 bytes
  t2               256 +128         live 0 to 1  relu
  t3                 0 +256         live 1 to 2  mm

weights
  w0                 0 +512         weight

coverage
  100.0% of ops, 100.0% of FLOPs; 0 nodes are not native""",
        )

    def test_fallback(self) -> None:
        self.assertExpectedInline(
            printed(models.HostOpInTheMiddle(), (torch.randn(3, 5),)),
            """\
model       HostOpInTheMiddle
format      1.5, needs driver 1.0
written by  torch_atalla 0.2.0, torch N
file        N bytes
estimate    N cycles, N J

sections
  kind                offset         bytes  records  crc32c
  strings                ...
  integers             ...       11
  doubles              ...        8
  kernels              ...        2
  storages             ...        5
  values               ...        7
  operands             ...        5
  instructions         ...        3
  host_calls           ...        1
  inputs               ...        1
  outputs              ...        2
  nodes                ...        5
  segments             ...        3
  methods              ...        1
  metadata             ...       12
  goldens              ...        1

interface
  input   i0 f32[3, 5]  x
  output  o4 f32[3, 1]  mul
  output  o3 f32[3, 1]  getitem_1

graph
  segment native_0: 1 nodes, 1 instructions
    relu                    aten::relu  models.py:N
  segment fallback_1: 3 nodes, 1 instructions
    aminmax                 atalla_test::aminmax.dim  models.py:N  -- no native kernel
    getitem                 getitem  models.py:N  -- part of a node that is not native
    getitem_1               getitem  models.py:N  -- part of a node that is not native
  segment native_2: 1 nodes, 1 instructions
    mul                     aten::mul.Tensor  models.py:N

linear program
     0  pointwise.relu          t1 f32[3, 5] <- i0 f32[3, 5]  # relu models.py:N
     1  host_call               t2 f32[3, 1], o3 f32[3, 1] <- t1 f32[3, 5]  ops atalla_test::aminmax.dim  # aminmax models.py:N
     2  pointwise.mul           o4 f32[3, 1] <- t2 f32[3, 1], 2:i64  # mul models.py:N

memory plan
  arena of 128 bytes
  t1                 0 +60          live 0 to 1  relu
  t2                64 +12          live 1 to 2  getitem

coverage
  66.7% of ops, 100.0% of FLOPs; 3 nodes are not native""",
        )
