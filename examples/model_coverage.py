# SPDX-License-Identifier: BSD-3-Clause
"""Native ops of a list of models
==============================

Which ops of a list of models run on the chip, and what is missing.

Usage::

    python examples/model_coverage.py [--details]

Each model is exported and compiled, not saved and not run; --details prints each missing node with its reason. Exits
with 1 when a model that must be wholly native is not, or one that must not be is.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from torch_atalla.compiler import compile_program
from torch_atalla.compiler.file.report import make_report
from torch_atalla.loadable.report import LoadableReport


@torch.library.custom_op("mylib::add_relu", mutates_args=(), device_types="cpu")
def add_relu(x: torch.Tensor, value: float) -> torch.Tensor:
    """An operator of your own, with a kernel for the CPU only: the chip has none."""
    return torch.relu(x + value)


@add_relu.register_fake
def _(x: torch.Tensor, value: float) -> torch.Tensor:
    return torch.empty_like(x)


class Call(nn.Module):
    """A function as a module; given a model, a function of it and the inputs."""

    def __init__(self, function: Callable[..., Any], model: nn.Module | None = None) -> None:
        super().__init__()
        self.function, self.model = function, model

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(*inputs) if self.model is None else self.function(self.model, *inputs)


class VitBlock(nn.Module):
    """A pre-norm transformer block over patches of an image."""

    def __init__(self, width: int = 64, heads: int = 4) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, kernel_size=8, stride=8)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = self.patches(image).flatten(2).transpose(1, 2)
        y = self.norms[0](x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.norms[1](x))


def bert() -> tuple[nn.Module, tuple]:
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=100, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64
    )
    model = Call(lambda m, ids, mask: m(ids, attention_mask=mask).last_hidden_state, BertModel(config))
    return model, (torch.randint(100, (2, 8)), torch.ones(2, 8, dtype=torch.long))


def gpt2() -> tuple[nn.Module, tuple]:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(n_layer=2, n_embd=64, n_head=4, vocab_size=128, n_positions=64, bos_token_id=0, eos_token_id=0)
    return Call(lambda m, ids: m(ids, use_cache=False).logits, GPT2LMHeadModel(config)), (torch.randint(128, (2, 12)),)


def small_cnn() -> tuple[nn.Module, tuple]:
    layers = [nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8 * 49, 10)]
    return nn.Sequential(*layers), (torch.randn(1, 3, 16, 16),)


@dataclass(frozen=True)
class Entry:
    make: Callable[[], tuple[nn.Module, tuple]]
    native: bool | None  # True: must be wholly native; False: must not be; None: only reported


MODELS = {
    "matmul, relu": Entry(
        lambda: (Call(lambda x, y: torch.relu(x @ y)), (torch.randn(128, 64), torch.randn(64, 128))), True
    ),
    "relu, matmul, softmax": Entry(
        lambda: (Call(lambda x, y: (x.relu() @ y).softmax(-1)), (torch.randn(4, 8), torch.randn(8, 16))), True
    ),
    "sin + cos": Entry(lambda: (Call(lambda x: x.sin() + x.cos()), (torch.randn(16, 16),)), True),
    "MLP": Entry(lambda: (nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 10)), (torch.randn(8, 32),)), True),
    "ViT block": Entry(lambda: (VitBlock(), (torch.randn(2, 3, 32, 32),)), True),
    "BERT, 2 layers": Entry(bert, True),
    "GPT-2, 2 layers": Entry(gpt2, True),
    "small CNN": Entry(small_cnn, None),
    "LSTM cell": Entry(lambda: (nn.LSTMCell(8, 16), (torch.randn(2, 8),)), None),
    "top-k router": Entry(lambda: (Call(lambda x: x.softmax(-1).topk(2)), (torch.randn(4, 8),)), None),
    "simulated int8": Entry(
        lambda: (Call(lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 0, -128, 127).relu()), (torch.randn(4),)),
        True,
    ),
    "custom operator": Entry(lambda: (Call(lambda x: add_relu(x, 0.5) * 2), (torch.randn(4),)), False),
}


def coverage(entry: Entry) -> LoadableReport:
    model, inputs = entry.make()
    return make_report(compile_program(model.eval(), inputs, fallback="cpu"))


def main() -> int:
    parser = argparse.ArgumentParser(description="Coverage of a list of models.")
    parser.add_argument("--details", action="store_true", help="print each missing node with its reason")
    args = parser.parse_args()
    warnings.filterwarnings("ignore", category=FutureWarning, module="copyreg")  # torch.export copying its own trees
    torch.manual_seed(0)
    missing: Counter[str] = Counter()
    wrong = []
    print(f"{'model':<24}{'ops':>5}{'native':>8}{'FLOPs native':>14}{'launches':>10}  missing")
    for name, entry in MODELS.items():
        report = coverage(entry)
        ops = Counter(op.op for op in report.unsupported)
        missing += ops
        print(f"{name:<24}{report.ops:>5}{report.native_ops:>8}{report.coverage_flops:>14.1%}{report.launches:>10}  "
              f"{', '.join(sorted(ops)) or '-'}")  # fmt: skip
        if args.details:
            print("".join(f"    {op}\n" for op in report.unsupported), end="")
        if entry.native is not None and entry.native != (not ops and report.native_ops == report.ops > 0):
            wrong.append(name)
    print(
        "\nmissing, most frequent first: " + (", ".join(f"{op} ({n})" for op, n in missing.most_common()) or "nothing")
    )
    if wrong:
        print(f"FAILED: not as expected: {', '.join(wrong)}")
        return 1
    print(f"ok: {sum(entry.native is True for entry in MODELS.values())} models that must be native are")
    return 0


if __name__ == "__main__":
    sys.exit(main())
