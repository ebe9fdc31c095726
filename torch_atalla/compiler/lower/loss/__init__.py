# SPDX-License-Identifier: BSD-3-Clause
"""Losses."""

from . import losses, margin_losses  # noqa: F401 (rules)
