# SPDX-License-Identifier: BSD-3-Clause
"""Rules that make the values of a configuration small, by the names of its fields.

A model takes the first rule with which it is built and its forward runs:

- Narrow: small numbers for widths, heads, layers, images and words, each by the name of its field.
- Filled: Narrow, and such numbers also where the configuration has None.
- Proportion: all widths divided by one number, so that what was equal stays equal, and what was a multiple stays one.
- Shallow: fewer layers, words and queries; every other number is the configuration's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

WIDTH, HEADS, GROUPS, HEAD = 64, 4, 2, 16
WORDS, IMAGE, PATCH, LAYERS = 128, 32, 8, 2

# Ids of tokens that stand for something else. Other ids are drawn from FIRST_WORD to LAST_WORD.
TOKENS = {
    "pad": 0, "bos": 1, "eos": 2, "sep": 2, "cls": 1, "decoder_start": 1, "image": 100, "video": 101, "audio": 102,
}  # fmt: skip
FIRST_WORD, LAST_WORD, FIRST_TOKEN = 5, 99, 103

# Number by the name of the field, the first pattern that matches. A value that is smaller stays.
WORD_COUNTS = (r"(^|_)vocab_size|vocab_size_per|audio_vocab", WORDS)
LAYER_COUNTS = (
    r"(num|n)_.*layers?$|_layers$|^depth$|_depth$|^n_layers?$|num_blocks$|^layers$|num_hidden_layers",
    LAYERS,
)
QUERIES = (r"num_queries|num_object_queries|num_query_tokens|num_latents", 10)
NUMBERS: list[tuple[str, int]] = [
    WORD_COUNTS,
    (r"^(max_|n_)?(position_embeddings|positions|ctx)$|max_(target_|source_)?position|max_seq_?len|n_positions", 128),
    (r"num_(key_value|kv)_(heads|groups)|n_head_kv|num_kv_heads|num_key_value|(num|multi)_query_group", GROUPS),
    (r"(num|n)_.*heads?$|^n_heads?$|attention_heads$|nhead|_heads$", HEADS),
    (r"experts?_per_tok|^top_k$|num_experts_per|topk$|moe_k$|num_selected", 2),
    (r"^(n_group|topk_group|num_groups_moe)$", 1),
    (r"(num|n)_(local_|routed_|shared_)?experts$|experts$", 4),
    (r"head_dim|head_size|dim_head|^d_kv$|key_dim|value_dim|rope_head|^d_head$|head_width", HEAD),
    LAYER_COUNTS,
    QUERIES,
    (r"sliding_window|attention_window|window_size|local_attention|chunk_size", 8),
    (r"_rank$", 16),
    (r"^context_length$", 512),
    (r"rotary_dim", HEAD // 2),
    (r"(^|_)(d_model|embed_dim|embedding_dim|hidden_dim|n_embd|d_ff|dim|width|n_inner|_dim|_size|channels)$", WIDTH),
    (r"(^|_)(hidden|intermediate|embedding|feature)_size$|(^|_)(ffn|inner|projection|output|proj)_dim$", WIDTH),
    (r"(hidden|intermediate|_embed|ffn|_proj|feature|codebook|latent|bottleneck)\w*(_dim|_size|channels)$", WIDTH),
]
KEPT = re.compile(
    r"patch|kernel|stride|num_channels|in_channels|in_chans|sampling_rate|spatial_merge|temporal|fft|hop|num_mel"
    r"|num_labels|conv_dim$|type_vocab|num_codebooks|nb_max_frames|max_2d|tile|shared_experts|block_size$"
    r"|downsample|upsampl|conv1d_dim|group_size|state_size|dt_rank$|num_groups$"
)
# Numbers that a configuration may leave open, for Filled.
LAYER_KINDS = {"layer_types": ["full_attention"] * LAYERS, "mlp_layer_types": ["dense", "sparse"]}
UNSET = [(r"prediction_length", 8), (r"token_budget|index_topk", 16), (r"compress_ratio", 2)]


IMAGES = ("img_size", "input_size", "pretrain_img_size")
KEY_HEADS = re.compile(r"num_(key_value|kv)_heads$|n_head_kv$")
HEAD_COUNTS = ("num_attention_heads", "num_heads", "n_head", "n_heads")
STAGES = re.compile(r"depths|num_blocks|layers|stage_repeat|blocks_per|block_repeats")
WIDTHS = re.compile(r"size|dim|channels|width|filters|d_model|n_embd|d_ff|n_inner|feats$|embd$|_rank$")
NOT_WIDTHS = re.compile(
    r"patch|kernel|stride|sampling|spatial_merge|temporal|fft|hop|num_mel|labels|type_vocab|codebooks|codebook_size|max_2d"
    r"|tile|block_size|batch|downsample|upsampl|group_size|num_groups|vocab|window|head|expert|layers|position|length"
    r"|chunk|image|img|input_size|freq|grid|ratio"
)
HEAD_WIDTHS = re.compile(r"head_dim|head_size|dim_head|^d_kv$|^d_head$")


class Narrow:
    def __call__(self, name: str, value: Any, values: dict[str, Any]) -> Any:
        """The value of a field. values: all of the configuration that has it."""
        if isinstance(value, (bool, dict)) or value is None:
            return value
        if token := re.fullmatch(r"(\w+)_token_(id|index)|(\w+)_id", name):
            return self.token(token[1] or token[3], value)
        if isinstance(value, (list, tuple)):
            is_numbers = value and all(isinstance(x, int) and not isinstance(x, bool) for x in value)
            return type(value)(self.numbers(name, list(value), values)) if is_numbers else value
        return self.number(name, value, values) if isinstance(value, int) else value

    def token(self, word: str, value: Any) -> Any:
        if isinstance(value, int) and value >= 0:
            return TOKENS.get(word, FIRST_TOKEN + sum(map(ord, word)) % (WORDS - FIRST_TOKEN))
        return [TOKENS.get(word, FIRST_TOKEN)] if isinstance(value, list) else value

    def number(self, name: str, value: int, values: dict[str, Any]) -> int:
        if "image_size" in name or name in IMAGES:
            return min(value, IMAGE if "patch_size" in values else 2 * IMAGE)
        if name == "patch_size":
            return min(value, PATCH)
        if KEPT.search(name):
            return value
        heads = values.get("num_heads")
        if name == "embed_dim" and isinstance(heads, (list, tuple)):
            return HEAD * heads[0]
        if name == "window_size" and "spatial_merge_size" in values:
            return min(value, IMAGE)
        if KEY_HEADS.search(name) and value in [values.get(n) for n in HEAD_COUNTS]:
            return min(value, HEADS)
        return next((min(value, number) for pattern, number in NUMBERS if re.search(pattern, name)), value)

    def numbers(self, name: str, value: list[int], values: dict[str, Any]) -> list[int]:
        if "image_size" in name or name in IMAGES:
            return [IMAGE if "patch_size" in values else 2 * IMAGE] * len(value)
        if name == "patch_size":
            return [min(number, PATCH) for number in value]
        if STAGES.search(name):
            return [min(number, LAYERS) for number in value]
        if re.search(r"size|dim|channels|width|filters", name) and not KEPT.search(name) and "window" not in name:
            factor = max(1, min(value) // 16)
            return [number // factor for number in value]
        return value


class Filled(Narrow):
    def __call__(self, name: str, value: Any, values: dict[str, Any]) -> Any:
        if value is not None:
            return super().__call__(name, value, values)
        if token := re.fullmatch(r"(image|video|audio)_token_(id|index)", name):
            return TOKENS[token[1]]
        if name in LAYER_KINDS:
            return list(LAYER_KINDS[name])
        if name == "pad_token_id" or KEPT.search(name):
            return None
        return next((number for pattern, number in [*NUMBERS, *UNSET] if re.search(pattern, name)), None)


class Shallow(Narrow):
    def number(self, name: str, value: int, values: dict[str, Any]) -> int:
        counts = (WORD_COUNTS, LAYER_COUNTS, QUERIES)
        return next((min(value, number) for pattern, number in counts if re.search(pattern, name)), value)

    def numbers(self, name: str, value: list[int], values: dict[str, Any]) -> list[int]:
        return [min(number, LAYERS) for number in value] if STAGES.search(name) else value


class Proportion(Shallow):
    """values: all of the outermost configuration."""

    def __init__(self, values: dict[str, Any]) -> None:
        limits = [16, *_limits(values)]
        self.factor = 1 << (max(1, min(limits)).bit_length() - 1)
        self.image = max([1, *(size // 128 for size in _image_sizes(values))])

    def number(self, name: str, value: int, values: dict[str, Any]) -> int:
        if "image" in name or name in IMAGES:
            return value // self.image if value >= 64 else value
        return value // self.factor if _is_width(name, value) else super().number(name, value, values)

    def numbers(self, name: str, value: list[int], values: dict[str, Any]) -> list[int]:
        if STAGES.search(name):
            return super().numbers(name, value, values)
        return [self.number(name, number, values) for number in value]


def _is_width(name: str, value: int) -> bool:
    is_named = WIDTHS.search(name) and not NOT_WIDTHS.search(name) or HEAD_WIDTHS.search(name)
    return bool(is_named) and value >= 32


def _fields(values: dict[str, Any]) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """The whole numbers of a configuration and of those inside it, also in lists, each with its configuration."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _fields(value)
        for number in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(number, int) and not isinstance(number, bool):
                yield name, number, values


def _limits(values: dict[str, Any]) -> Iterator[int]:
    """What widths can be divided by: eight channels are left, and as many for each head."""
    for name, value, around in _fields(values):
        if _is_width(name, value):
            yield value // 8
        if name in ("hidden_size", "d_model"):
            heads = next((around[n] for n in HEAD_COUNTS if isinstance(around.get(n), int)), 1)
            yield value // (8 * max(1, heads))


def _image_sizes(values: dict[str, Any]) -> Iterator[int]:
    return (value for name, value, _ in _fields(values) if name == "image_size" or name in IMAGES)


RULES = ("narrow", "filled", "proportion", "shallow")


def rule_of(name: str, values: dict[str, Any]) -> Narrow:
    """The rule of a name in RULES, for a configuration with these values."""
    if name == "proportion":
        return Proportion(values)
    return {"narrow": Narrow, "filled": Filled, "shallow": Shallow}[name]()
