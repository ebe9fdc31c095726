# SPDX-License-Identifier: BSD-3-Clause
"""Sizes of the decoder of benchmarks/loadable/decoder.py, for processes that have torch and for those that have not."""

from __future__ import annotations

PROMPT, STEPS = 64, 64  # tokens given, and then chosen
LENGTH = PROMPT + STEPS  # of the cache
VOCABULARY, WIDTH, HEADS, LAYERS, HIDDEN = 8192, 384, 6, 6, 1024
CACHE = (1, HEADS, LENGTH, WIDTH // HEADS)  # shape of the keys of a layer, and of its values
METHODS = ("prefill", "decode")
