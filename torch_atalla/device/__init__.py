# SPDX-License-Identifier: BSD-3-Clause
"""The modules of `torch.atalla`, which namespace.py gathers."""
