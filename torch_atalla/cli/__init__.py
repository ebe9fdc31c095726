# SPDX-License-Identifier: BSD-3-Clause
"""The subcommands of `python -m torch_atalla`, one module each."""
