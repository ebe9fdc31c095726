# SPDX-License-Identifier: BSD-3-Clause
"""Small forms of transformers' configurations, by a rule of rules.py.

A model whose layers differ keeps one layer of each kind.
"""

from __future__ import annotations

import inspect
from typing import Any

from tools.architectures.rules import HEAD, LAYERS, Narrow, Shallow, rule_of

# Fields that no rule can know: model type -> values.
OVERRIDES: dict[str, dict[str, Any]] = {
    "align": {"projection_dim": 640},
    "mamba2": {"num_heads": 8},
    **dict.fromkeys(("mimi", "mimi_encoder", "mimi_decoder"), {"upsample_groups": 64}),
}
BACKBONE = {
    "model_type": "resnet", "layer_type": "basic", "embedding_size": 16, "hidden_sizes": [16, 24, 32, 48],
    "depths": [1, 1, 1, 1],
}  # fmt: skip
DROPPED = {
    "self", "kwargs", "args", "id2label", "label2id", "architectures", "dtype", "transformers_version", "name_or_path",
    "return_dict", "output_hidden_states", "output_attentions", "problem_type", "chunk_size_feed_forward",
    "is_encoder_decoder",
}  # fmt: skip


def small_config(model_type: str, rule: str = "narrow") -> Any:
    """The configuration of a model type by a rule, one of RULES. Raises what the configuration raises."""
    from transformers import CONFIG_MAPPING

    config_class: Any = CONFIG_MAPPING[model_type]
    values = config_class().to_dict()
    config = config_class(**shrunk(config_class, values, OVERRIDES.get(model_type, {}), rule_of(rule, values)))
    for part in parts(config):
        if getattr(part, "use_cache", None):
            part.use_cache = False
    return config


def parts(config: Any) -> list[Any]:
    """A configuration, and those inside it."""
    from transformers import PreTrainedConfig

    inside = [value for value in vars(config).values() if isinstance(value, PreTrainedConfig)]
    return [config, *(part for value in inside for part in parts(value))]


def shrunk(config_class: Any, values: dict[str, Any], given: dict[str, Any], rule: Narrow) -> dict[str, Any]:
    """Arguments of a configuration, from the values of a large one; `given` are those that no rule can know."""
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
            of_type = OVERRIDES.get(kind, {}) | given.get(name, {}) if not isinstance(rule, Shallow) else {}
            result[name] = shrunk(inner, value, of_type, rule) | ({"model_type": kind} if kind else {})
        elif default is None and name not in ("out_features", "out_indices", "_out_features", "_out_indices"):
            if isinstance(value, dict):
                axes = "mrope_section" in getattr(config_class, "ignore_keys_at_rope_validation", ())
                axes = axes and not isinstance(rule, Shallow)
                result[name] = rotary(value, values.get("partial_rotary_factor") or 1.0) if axes else value
            elif filled := rule(name, None, values):
                result[name] = filled
        else:
            result[name] = rule(name, value, values)
    keep_kinds_of_layers(result, values)
    keep_features(result, values)
    if isinstance(rule, Shallow):
        return result
    return result | {
        name: value for name, value in given.items() if not isinstance(result.get(name), dict) or name not in classes
    }


def rotary(values: dict[str, Any], partial: float = 1.0) -> dict[str, Any]:
    """Parameters of rotary embeddings for heads of HEAD. Where there are three axes, each has a part of the angles."""
    if "rope_theta" not in values:
        return {name: rotary(value, partial) if isinstance(value, dict) else value for name, value in values.items()}
    angles = int(HEAD * values.get("partial_rotary_factor", partial)) // 2
    return values | {"mrope_section": [angles - 2 * (angles // 4), angles // 4, angles // 4]}


def keep_kinds_of_layers(result: dict[str, Any], values: dict[str, Any]) -> None:
    """One layer of each kind, at least LAYERS, where the configuration lists the kinds, or widths, of all layers."""
    count = next((values[n] for n in ("num_hidden_layers", "n_layer", "num_layers") if n in values), None)
    name = next((n for n in ("num_hidden_layers", "n_layer", "num_layers") if n in result), None)
    lists = {key: v for key, v in values.items() if isinstance(v, list) and len(v) == count}
    kinds = {key: v for key, v in lists.items() if all(isinstance(x, str) for x in v)}
    others = [key for key in lists.keys() - kinds.keys() if isinstance(result.get(key), list) and (count or 0) > 4]
    if name is None or not count or not (kinds or others):
        return
    seen: set[tuple[str, str]] = set()
    chosen: list[int] = []
    for i in range(count):
        new = {(key, names[i]) for key, names in kinds.items()} - seen
        if new:
            chosen.append(i)
            seen |= new
    chosen = sorted((chosen + [i for i in range(count) if i not in chosen])[: max(LAYERS, len(chosen))])
    result[name] = len(chosen)
    for key, names in kinds.items():
        result[key] = [names[i] for i in chosen]
    for key in others:
        result[key] = [result[key][i] for i in chosen]


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
