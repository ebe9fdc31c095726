# SPDX-License-Identifier: BSD-3-Clause
"""Small forms of transformers' configurations: narrow, shallow, and for small images and vocabularies.

The rules go by the names of fields. Lists of stages keep their length and their ratios. A model whose layers differ
keeps one layer of each kind.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

from tools.architectures.exceptions import OVERRIDES

WIDTH, HEADS, GROUPS, HEAD = 64, 4, 2, 16
WORDS, IMAGE, PATCH, LAYERS = 128, 32, 8, 2

# Ids of tokens that stand for something else. Other ids are drawn from FIRST_WORD to LAST_WORD.
TOKENS = {
    "pad": 0, "bos": 1, "eos": 2, "sep": 2, "cls": 1, "decoder_start": 1, "image": 100, "video": 101, "audio": 102,
}  # fmt: skip
FIRST_WORD, LAST_WORD, FIRST_TOKEN = 5, 99, 103

# Number by the name of the field, the first pattern that matches. A value that is smaller stays.
NUMBERS: list[tuple[str, int]] = [
    (r"(^|_)vocab_size|vocab_size_per|audio_vocab", WORDS),
    (r"^(max_|n_)?(position_embeddings|positions|ctx)$|max_(target_|source_)?position|max_seq_?len|n_positions", 128),
    (r"num_(key_value|kv)_(heads|groups)|n_head_kv|num_kv_heads|num_key_value|(num|multi)_query_group", GROUPS),
    (r"(num|n)_.*heads?$|^n_heads?$|attention_heads$|nhead|_heads$", HEADS),
    (r"experts?_per_tok|^top_k$|num_experts_per|topk$|moe_k$|num_selected", 2),
    (r"^(n_group|topk_group|num_groups_moe)$", 1),
    (r"(num|n)_(local_|routed_|shared_)?experts$|experts$", 4),
    (r"head_dim|head_size|dim_head|^d_kv$|key_dim|value_dim|rope_head|^d_head$|head_width", HEAD),
    (r"(num|n)_.*layers?$|_layers$|^depth$|_depth$|^n_layers?$|num_blocks$|^layers$|num_hidden_layers", LAYERS),
    (r"num_queries|num_object_queries|num_query_tokens|num_latents", 10),
    (r"sliding_window|attention_window|window_size|local_attention|chunk_size", 8),
    (r"_rank$", 16),
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
BACKBONE = {
    "model_type": "resnet", "layer_type": "basic", "embedding_size": 16, "hidden_sizes": [16, 24, 32, 48],
    "depths": [1, 1, 1, 1],
}  # fmt: skip
DROPPED = {
    "self", "kwargs", "args", "id2label", "label2id", "architectures", "dtype", "transformers_version", "name_or_path",
    "return_dict", "output_hidden_states", "output_attentions", "problem_type", "chunk_size_feed_forward",
    "is_encoder_decoder",
}  # fmt: skip


def small_config(model_type: str) -> Any:
    """The configuration of a model type with small numbers. Raises what the configuration raises."""
    from transformers import CONFIG_MAPPING

    config_class: Any = CONFIG_MAPPING[model_type]
    config = config_class(**shrunk(config_class, config_class().to_dict(), OVERRIDES.get(model_type, {})))
    for part in parts(config):
        if getattr(part, "use_cache", None):
            part.use_cache = False
    return config


def parts(config: Any) -> list[Any]:
    """A configuration, and those inside it."""
    from transformers import PreTrainedConfig

    inside = [value for value in vars(config).values() if isinstance(value, PreTrainedConfig)]
    return [config, *(part for value in inside for part in parts(value))]


def shrunk(config_class: Any, values: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Arguments of a configuration, from the values of a large one; `given` are those that the rules cannot know."""
    from transformers import CONFIG_MAPPING

    declared = {
        name: parameter.default
        for name, parameter in inspect.signature(config_class.__init__).parameters.items()
        if name not in DROPPED and parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
    }
    classes = {**(getattr(config_class, "sub_configs_defaults", None) or {}), **(config_class.sub_configs or {})}
    result: dict[str, Any] = {}
    for name, default in declared.items():
        value = values.get(name, default)
        if value is inspect.Parameter.empty:
            continue
        if isinstance(value, dict) and value.get("model_type") == "timm_backbone":  # timm needs torchvision
            stages = min(4, max(1, len(value.get("out_indices") or [1])))
            value = {**BACKBONE, "out_features": [f"stage{i}" for i in range(5 - stages, 5)]}
            result["use_timm_backbone"] = False
        if isinstance(value, dict) and (name in classes or "model_type" in value):
            kind = value.get("model_type") or ""
            inner = (
                CONFIG_MAPPING[kind]
                if kind in CONFIG_MAPPING
                else getattr(classes.get(name), "config_class", classes.get(name))
            )
            of_type = OVERRIDES.get(kind, {}) | given.get(name, {})
            result[name] = shrunk(inner, value, of_type) | ({"model_type": kind} if kind else {})
        elif default is None and name not in ("out_features", "out_indices", "_out_features", "_out_indices"):
            if isinstance(value, dict):
                axes = "mrope_section" in getattr(config_class, "ignore_keys_at_rope_validation", ())
                result[name] = rotary(value, values.get("partial_rotary_factor") or 1.0) if axes else value
        else:
            result[name] = small(name, value, values)
    keep_kinds_of_layers(result, values)
    keep_features(result, values)
    return result | {
        name: value for name, value in given.items() if not isinstance(result.get(name), dict) or name not in classes
    }


def rotary(values: dict[str, Any], partial: float = 1.0) -> dict[str, Any]:
    """Parameters of rotary embeddings for heads of HEAD. Where there are three axes, each has a part of the angles."""
    if "rope_theta" not in values:
        return {name: rotary(value, partial) if isinstance(value, dict) else value for name, value in values.items()}
    angles = int(HEAD * values.get("partial_rotary_factor", partial)) // 2
    return values | {"mrope_section": [angles - 2 * (angles // 4), angles // 4, angles // 4]}


def small(name: str, value: Any, values: dict[str, Any]) -> Any:
    if isinstance(value, (bool, dict)) or value is None:
        return value
    if token := re.fullmatch(r"(\w+)_token_(id|index)|(\w+)_id", name):
        word = token[1] or token[3]
        if isinstance(value, int) and value >= 0:
            return TOKENS.get(word, FIRST_TOKEN + sum(map(ord, word)) % (WORDS - FIRST_TOKEN))
        return [TOKENS.get(word, FIRST_TOKEN)] if isinstance(value, list) else value
    if isinstance(value, (list, tuple)):
        return type(value)(small_list(name, list(value), values))
    if not isinstance(value, int):
        return value
    if "image_size" in name or name in ("img_size", "input_size", "pretrain_img_size"):
        return min(value, IMAGE if "patch_size" in values else 2 * IMAGE)
    if name == "patch_size":
        return min(value, PATCH)
    if KEPT.search(name):
        return value
    heads = values.get("num_heads")
    if name == "embed_dim" and isinstance(heads, (list, tuple)):
        return HEAD * heads[0]
    for pattern, number in NUMBERS:
        if re.search(pattern, name):
            return min(value, number)
    return value


def small_list(name: str, value: list[Any], values: dict[str, Any]) -> list[Any]:
    numbers = [number for number in value if isinstance(number, int) and not isinstance(number, bool)]
    if not value or len(numbers) < len(value):
        return value
    if "image_size" in name or name in ("img_size", "input_size"):
        return [IMAGE if "patch_size" in values else 2 * IMAGE] * len(value)
    if name == "patch_size":
        return [min(number, PATCH) for number in value]
    if re.search(r"depths|num_blocks|layers|stage_repeat|blocks_per", name):
        return [min(number, 2) for number in value]
    if re.search(r"size|dim|channels|width|filters", name) and not KEPT.search(name) and "window" not in name:
        factor = max(1, min(numbers) // 16)
        return [number // factor for number in value]
    return value


def keep_kinds_of_layers(result: dict[str, Any], values: dict[str, Any]) -> None:
    """One layer of each kind, at least LAYERS, where the configuration lists the kinds of all layers."""
    count = next((values[n] for n in ("num_hidden_layers", "n_layer", "num_layers") if n in values), None)
    name = next((n for n in ("num_hidden_layers", "n_layer", "num_layers") if n in result), None)
    lists = {
        key: v
        for key, v in values.items()
        if isinstance(v, list) and len(v) == count and all(isinstance(x, str) for x in v)
    }
    if name is None or not count or not lists:
        return
    seen: set[tuple[str, str]] = set()
    chosen: list[int] = []
    for i in range(count):
        new = {(key, kinds[i]) for key, kinds in lists.items()} - seen
        if new:
            chosen.append(i)
            seen |= new
    chosen = sorted((chosen + [i for i in range(count) if i not in chosen])[: max(LAYERS, len(chosen))])
    result[name] = len(chosen)
    for key, kinds in lists.items():
        result[key] = [kinds[i] for i in chosen]


def keep_features(result: dict[str, Any], values: dict[str, Any]) -> None:
    """As many features of a backbone as before: of one layer each where stages are layers."""
    for features, indices in (("out_features", "out_indices"), ("_out_features", "_out_indices")):
        if features not in result and indices not in result:
            continue
        found = values.get(indices) or values.get("out_indices") or []
        named = values.get(features) or values.get("out_features") or []
        result.pop(features, None)
        result.pop(indices, None)
        if not found and not named:
            continue
        isotropic = isinstance(result.get("num_hidden_layers"), int) and "depths" not in result
        if isotropic:
            count = max(len(found), len(named))
            result["num_hidden_layers"] = max(LAYERS, count)
            result["out_indices"] = list(range(1, count + 1)) if count > 1 else [result["num_hidden_layers"]]
        elif found:
            result["out_indices"] = list(found)
        else:
            result["out_features"] = list(named)
