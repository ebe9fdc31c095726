# SPDX-License-Identifier: BSD-3-Clause
"""Views, copies and new tensors."""

from . import copies, factories, shuffle, views  # noqa: F401 (rules)
