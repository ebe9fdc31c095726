# SPDX-License-Identifier: BSD-3-Clause
"""Subcommands of `python -m torch_atalla`, one module each."""
