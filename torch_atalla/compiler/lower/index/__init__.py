# SPDX-License-Identifier: BSD-3-Clause
"""Gathering and scattering by indices."""

from . import assertions, embedding_bag, indexing, row_writes, scatter  # noqa: F401 (rules)
