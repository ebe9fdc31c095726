# SPDX-License-Identifier: BSD-3-Clause
"""Normalizations."""

from . import batch_norm, group_norm, norm  # noqa: F401 (rules)
