# SPDX-License-Identifier: BSD-3-Clause
"""Inputs for a small model, by the names that its forward takes.

A name may have several forms: (2, mel, time) or (2, time, mel). candidates() gives combinations of them, and a model
takes the first that its forward accepts on the CPU.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from itertools import islice, product
from typing import Any

import torch

from tools.architectures.rules import FIRST_WORD, LAST_WORD
from tools.architectures.small_config import parts
from torch_atalla.testing import tensors

BATCH, LENGTH, TARGETS = 2, 16, 8
ATTEMPTS = 40
GRID = torch.tensor([[1, 4, 4]])  # frames, and rows and columns of patches
# Of images: a program is made for certain ones.
SIZES = ("grid_thw", "image_grid_thw", "image_sizes", "merge_sizes", "spatial_shapes", "pixel_position_ids",
         "image_position_ids")  # fmt: skip
SERIES = ("past_values", "past_observed_mask", "past_time_features", "future_values", "future_time_features")
LATENT = ("_embeds", "_embeddings", "hidden_states", "inputs", "latents")
Inputs = dict[str, Any]


def value(config: Any, *names: str, default: Any) -> Any:
    """The first of these fields that the configuration, or one inside it, has."""
    for name in names:
        for part in parts(config):
            found = getattr(part, name, None)
            if found is not None:
                return found
    return default


def number(config: Any, *names: str, default: int) -> int:
    found = value(config, *names, default=default)
    return found[0] if isinstance(found, (list, tuple)) and found else found if isinstance(found, int) else default


def words(batch: int = BATCH, length: int = LENGTH, last: int = LAST_WORD) -> torch.Tensor:
    return torch.randint(FIRST_WORD, last, (batch, length))


def image_shape(config: Any) -> tuple[int, int, int]:
    size = value(config, "image_size", "img_size", "input_size", default=64)
    if isinstance(size, dict):
        size = (size.get("height", 64), size.get("width", 64))
    height, width = size if isinstance(size, (list, tuple)) and len(size) == 2 else (number_of(size), number_of(size))
    return number(config, "num_channels", "in_channels", "in_chans", default=3), height, width


def number_of(size: Any) -> int:
    return size if isinstance(size, int) else size[0]


def mels(config: Any) -> int:
    names = ("num_mel_bins", "n_mels", "input_feat_per_channel", "feature_projection_input_dim", "feature_size",
             "input_dim", "num_mel_bin", "input_feat_size", "mel_bins")  # fmt: skip
    return number(config, *names, default=80)


def boxes(*shape: int) -> torch.Tensor:
    low, high = torch.randint(0, 50, (*shape, 2)), torch.randint(50, 100, (*shape, 2))
    return torch.cat([low, high], -1)


def padded(batch: int, length: int) -> torch.Tensor:
    mask = torch.ones(batch, length, dtype=torch.long)
    if batch > 1:
        mask[1, length // 2 :] = 0
    return mask


def forms(name: str, config: Any, main: str = "") -> list[Any]:
    """Values for an input, the likely one first. Empty if the name is not known. main: the name of the main input."""
    channels, height, width = image_shape(config)
    frames = number(config, "num_frames", "frames_per_clip", default=2)
    mel, time = mels(config), 2 * number(config, "max_source_positions", default=32)
    text = value(config, "hidden_size", "d_model", default=64)
    if name in ("input_ids", "decoder_input_ids"):
        if name != main and not any(hasattr(part, "vocab_size") for part in parts(config)):
            return []
        last = min(LAST_WORD, number(config, "vocab_size", default=LAST_WORD))
        return [words(BATCH, LENGTH if name == "input_ids" else TARGETS, last)]
    if name == "attention_mask":
        return [padded(BATCH, LENGTH), None]
    if name == "pixel_values":
        image = torch.randn(BATCH, channels, height, width)
        video = torch.randn(BATCH, frames, channels, height, width)
        pair = torch.randn(BATCH, 2, channels, height, width)
        flat = [patch[None].expand(BATCH, -1, -1).clone() for patch in patches(config)[:1]]
        return [image, video, *patches(config), torch.randn(BATCH, channels, 2 * height, 2 * width), pair, *flat]
    if name in ("input_values", "audio_values", "waveform"):
        wave = torch.randn(BATCH, 4000)
        spectrum = torch.randn(BATCH, number(config, "max_length", default=64), mel)
        return [wave, wave[:, None], spectrum]
    if name in ("input_features_mask", "padding_mask"):
        rows = torch.ones(BATCH, time, dtype=torch.long)
        return [None, rows, rows.bool(), torch.ones(BATCH, LENGTH, dtype=torch.long)]
    if name in ("pixel_position_ids", "image_position_ids"):
        places = torch.cartesian_prod(torch.arange(int(GRID[0, 1])), torch.arange(int(GRID[0, 2])))
        return [places[None].expand(BATCH, -1, -1).clone()]
    clip = (BATCH, frames, channels, height, width)
    spectra: tuple[tuple[int, ...], ...] = ((BATCH, mel, time), (BATCH, time, mel), (BATCH, 1, mel, time))
    known: dict[tuple[str, ...], Callable[[], list[Any]]] = {
        ("pixel_values_videos", "pixel_values_video"): lambda: [torch.randn(clip)],
        ("input_features",): lambda: [torch.randn(shape) for shape in spectra],
        ("bbox",): lambda: [boxes(BATCH, LENGTH)],
        SERIES: lambda: series(name, config),
        ("inputs_embeds",): lambda: [torch.randn(BATCH, LENGTH, text)],
        ("hidden_states",): lambda: [*patches(config), torch.randn(BATCH, LENGTH, text)],
        ("grid_thw", "image_grid_thw"): lambda: [GRID.clone()],
        ("visual_feats",): lambda: [torch.randn(BATCH, 4, number(config, "visual_feat_dim", default=64))],
        ("visual_pos",): lambda: [torch.rand(BATCH, 4, number(config, "visual_pos_dim", default=4))],
        ("token_type_ids", "past_values_padding"): lambda: [torch.zeros(BATCH, LENGTH, dtype=torch.long)],
        ("merge_sizes",): lambda: [torch.tensor([number(config, "spatial_merge_size", default=2)])],
        ("spatial_shapes",): lambda: [GRID[:, 1:].expand(BATCH, -1).clone()],
        ("task_inputs", "text_inputs"): lambda: [words()],
        ("freq", "lengths"): lambda: [torch.zeros(BATCH, 1, dtype=torch.long)],
        ("pixel_attention_mask",): lambda: [None, torch.ones(BATCH, int(GRID.prod()), dtype=torch.long)],
    }
    make = next((make for names, make in known.items() if name in names), None)
    return likely(name, config, (BATCH, channels, height, width), (mel, time), text) if make is None else make()


def likely(name: str, config: Any, image: tuple[int, ...], spectrum: tuple[int, int], width: Any) -> list[Any]:
    """Values for an input by how its name ends."""
    mel, time = spectrum
    codes = number(config, "num_quantizers", "n_codebooks", default=1)
    latent = number(config, "codebook_dim", "latent_dim", "vae_dim", "hidden_size", default=64)
    latents: tuple[tuple[int, ...], ...] = ((BATCH, LENGTH, width), (BATCH, latent, LENGTH), (BATCH, LENGTH, latent))
    endings: dict[tuple[str, ...], Callable[[], list[Any]]] = {
        ("input_ids",): lambda: [words()],
        ("pixel_values", "_masks"): lambda: [torch.randn(image)],
        ("mel",): lambda: [torch.randn(BATCH, time, mel), torch.randn(BATCH, mel, time)],
        ("mel_mask",): lambda: [torch.zeros(BATCH, time, dtype=torch.bool)],
        ("_mask",): lambda: [torch.ones(BATCH, LENGTH, dtype=torch.long)],
        LATENT: lambda: [torch.randn(shape) for shape in latents],
        ("codes",): lambda: [torch.randint(0, 16, (BATCH, codes, LENGTH))],
    }
    return next((make() for ends, make in endings.items() if name.endswith(ends)), [])


def patches(config: Any) -> list[Any]:
    """The patches of one image of GRID, in a row, for models whose images have any size."""
    size, channels = number(config, "patch_size", default=0), image_shape(config)[0]
    if not size:
        return []
    rows, frames = int(GRID.prod()), number(config, "temporal_patch_size", default=1)
    return [torch.randn(rows, channels * frames * size * size), torch.randn(rows, channels, size, size)]


def with_images(model: Any) -> Iterator[Inputs]:
    """Words around the places of an image, as many as the model makes features of it."""
    config, parameters = model.config, inspect.signature(model.forward).parameters
    token = value(config, "image_token_id", "image_token_index", default=None)
    if not hasattr(model, "get_image_features") or token is None or "pixel_values" not in parameters:
        return
    taken = inspect.signature(model.get_image_features).parameters
    width = config.get_text_config().hidden_size
    for pixels in forms("pixel_values", config):
        image: Inputs = {"pixel_values": pixels[:1] if pixels.ndim > 3 and pixels.shape[0] == BATCH else pixels}
        for name, size in (("image_grid_thw", GRID.clone()), ("image_sizes", torch.tensor([image_shape(config)[1:]]))):
            if name in taken:
                image[name] = size
        try:
            features = model.get_image_features(**image)
            features = getattr(features, "pooler_output", features)
            count = sum(x.numel() for x in tensors(features)) // width
        except Exception:
            continue
        around = words(1)
        ids = torch.cat([around[:, :4], torch.full((1, count), token), around[:, 4:]], 1)
        inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids), **image}
        if "mm_token_type_ids" in parameters:
            inputs["mm_token_type_ids"] = (ids == token).long()
        yield inputs


def series(name: str, config: Any) -> list[Any]:
    lags = value(config, "lags_sequence", default=[0])
    past = number(config, "context_length", default=32) + (max(lags) if isinstance(lags, (list, tuple)) else 0)
    future, features = number(config, "prediction_length", default=8), number(config, "num_time_features", default=0)
    channels = number(config, "num_input_channels", "input_size", default=1)
    several = [torch.randn(BATCH, past, channels), torch.randn(BATCH, past)]
    return {
        "past_values": several,
        "past_observed_mask": [torch.ones_like(several[0]), torch.ones_like(several[1])],
        "past_time_features": [torch.randn(BATCH, past, features)],
        "future_values": [torch.randn(BATCH, future), torch.randn(BATCH, future, channels)],
        "future_time_features": [torch.randn(BATCH, future, features)],
    }[name]


# Given where forward takes them, though it could do without.
WELCOME = ("input_ids", "attention_mask", "decoder_input_ids", "pixel_values", "pixel_values_videos", "input_features",
           "input_values", "bbox", "past_values", "input_features_mask",
           "visual_feats", "visual_pos")  # fmt: skip


def candidates(model: Any) -> Iterator[Inputs]:
    """Inputs in several forms, each drawn anew from torch's random numbers."""
    parameters = inspect.signature(model.forward).parameters
    main = model.main_input_name
    needed = [name for name, p in parameters.items() if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
    names = [name for name in parameters if name in WELCOME or name in needed or name == main]
    choices = {name: forms(name, model.config, main) for name in names}
    if "input_ids" not in names:
        choices.pop("attention_mask", None)
    choices = {name: found for name, found in choices.items() if found}
    yield from with_images(model)
    few = {name: found for name, found in choices.items() if name == main or name in needed}
    for some in (choices, few) if few and few != choices else (choices,):
        for values in islice(product(*some.values()), ATTEMPTS):
            yield {name: item for name, item in zip(some, values) if item is not None}
