# SPDX-License-Identifier: BSD-3-Clause
"""Architectures of the transformers package in small, with random weights: name -> model and keyword inputs.

A model runs in a second on the simulated chip; its ops are those of its large relatives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

Inputs = dict[str, Any]
Made = tuple[nn.Module, Inputs]

WORDS, LENGTH, WIDTH, HEADS, LAYERS = 97, 12, 32, 4, 2
TEXT: dict[str, Any] = {
    "vocab_size": WORDS, "hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
    "intermediate_size": 2 * WIDTH, "max_position_embeddings": 64,
}  # fmt: skip
SPECIAL = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2}


def tokens() -> torch.Tensor:
    return torch.randint(3, WORDS, (2, LENGTH))


def padded() -> Inputs:
    mask = torch.ones(2, LENGTH, dtype=torch.long)
    mask[1, LENGTH // 2 :] = 0
    return {"input_ids": tokens(), "attention_mask": mask}


def pixels(size: int = 32) -> Inputs:
    return {"pixel_values": torch.randn(2, 3, size, size)}


def build(config: str, model: str, inputs: Callable[[], Inputs], **settings: Any) -> Callable[[], Made]:
    def make() -> Made:
        import transformers

        torch.manual_seed(0)
        made = getattr(transformers, model)(getattr(transformers, config)(**settings)).eval()
        return made, inputs()

    return make


def encoder(name: str, **settings: Any) -> Callable[[], Made]:
    return build(f"{name}Config", f"{name}Model", padded, **(TEXT | settings))


def decoder(name: str, head: str = "ForCausalLM", **settings: Any) -> Callable[[], Made]:
    return build(
        f"{name}Config", f"{name}{head}", lambda: padded() | {"use_cache": False}, **(TEXT | SPECIAL | settings)
    )


def seq2seq() -> Inputs:
    return padded() | {"decoder_input_ids": tokens()[:, :6].contiguous(), "use_cache": False}


def vision(name: str, model: str = "", size: int = 32, **settings: Any) -> Callable[[], Made]:
    return build(f"{name}Config", model or f"{name}Model", lambda: pixels(size), **settings)


PATCHES: dict[str, Any] = {"image_size": 32, "patch_size": 8, "hidden_size": WIDTH, "num_hidden_layers": LAYERS,
           "num_attention_heads": HEADS, "intermediate_size": 2 * WIDTH}  # fmt: skip
STAGES: dict[str, Any] = {"depths": [1, 1], "hidden_sizes": [16, 32]}


def clip() -> Made:
    from transformers import CLIPConfig, CLIPModel

    torch.manual_seed(0)
    config = CLIPConfig(text_config=TEXT | SPECIAL, vision_config=PATCHES, projection_dim=16)
    return CLIPModel(config).eval(), padded() | pixels()


MODELS: dict[str, Callable[[], Made]] = {
    "ALBERT": encoder("Albert", embedding_size=16),
    "BART": build(
        "BartConfig", "BartForConditionalGeneration", seq2seq, vocab_size=WORDS, d_model=WIDTH, encoder_layers=LAYERS,
        decoder_layers=LAYERS, encoder_attention_heads=HEADS, decoder_attention_heads=HEADS, encoder_ffn_dim=64,
        decoder_ffn_dim=64, max_position_embeddings=64, decoder_start_token_id=1, **SPECIAL,
    ),
    "BERT": encoder("Bert"),
    "CLIP": clip,
    "ConvNeXt": vision("ConvNext", depths=[1, 1, 1, 1], hidden_sizes=[8, 16, 24, 32]),
    "DeiT": vision("DeiT", **PATCHES),
    "DistilBERT": build(
        "DistilBertConfig", "DistilBertModel", padded, vocab_size=WORDS, dim=WIDTH, n_layers=LAYERS, n_heads=HEADS,
        hidden_dim=64, max_position_embeddings=64,
    ),
    "ELECTRA": encoder("Electra", embedding_size=16),
    "Gemma": decoder("Gemma", num_key_value_heads=2, head_dim=8),
    "GPT-2": build(
        "GPT2Config", "GPT2LMHeadModel", lambda: padded() | {"use_cache": False}, vocab_size=WORDS, n_embd=WIDTH,
        n_layer=LAYERS, n_head=HEADS, n_positions=64, **SPECIAL,
    ),
    "GPT-NeoX": decoder("GPTNeoX"),
    "Llama": decoder("Llama", num_key_value_heads=2),
    "Mistral": decoder("Mistral", num_key_value_heads=2, sliding_window=8),
    "Mixtral": decoder("Mixtral", num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=2),
    "MobileNetV2": vision("MobileNetV2", depth_multiplier=0.25, min_depth=8, finegrained_output=False),
    "MPNet": encoder("MPNet", **SPECIAL),
    "OPT": build(
        "OPTConfig", "OPTForCausalLM", lambda: padded() | {"use_cache": False}, vocab_size=WORDS, hidden_size=WIDTH,
        num_hidden_layers=LAYERS, num_attention_heads=HEADS, ffn_dim=64, max_position_embeddings=64,
        word_embed_proj_dim=WIDTH, **SPECIAL,
    ),
    "Phi": decoder("Phi"),
    "Qwen2": decoder("Qwen2", num_key_value_heads=2),
    "ResNet": vision("ResNet", embedding_size=16, layer_type="basic", **STAGES),
    "RoBERTa": encoder("Roberta", **SPECIAL),
    "SegFormer": vision(
        "Segformer", "SegformerForSemanticSegmentation", 64, num_encoder_blocks=2, depths=[1, 1], sr_ratios=[4, 2],
        hidden_sizes=[16, 32], patch_sizes=[7, 3], strides=[4, 2], num_attention_heads=[1, 2], mlp_ratios=[2, 2],
        decoder_hidden_size=WIDTH,
    ),
    "Swin": vision(
        "Swin", image_size=32, patch_size=4, embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=4,
    ),
    "T5": build(
        "T5Config", "T5ForConditionalGeneration", seq2seq, vocab_size=WORDS, d_model=WIDTH, d_kv=8, d_ff=64,
        num_layers=LAYERS, num_heads=HEADS, decoder_start_token_id=2, pad_token_id=2, eos_token_id=1,
    ),
    "ViT": vision("ViT", **PATCHES),
    "Whisper": build(
        "WhisperConfig", "WhisperModel",
        lambda: {"input_features": torch.randn(1, 16, 40), "decoder_input_ids": tokens()[:1, :6], "use_cache": False},
        vocab_size=WORDS, num_mel_bins=16, d_model=WIDTH, encoder_layers=LAYERS, decoder_layers=LAYERS,
        encoder_attention_heads=HEADS, decoder_attention_heads=HEADS, encoder_ffn_dim=64, decoder_ffn_dim=64,
        max_source_positions=20, max_target_positions=32, decoder_start_token_id=1, **SPECIAL,
    ),
}  # fmt: skip
