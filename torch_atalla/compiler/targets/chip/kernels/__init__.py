# SPDX-License-Identifier: BSD-3-Clause
"""Kernels as generators of virtual instructions, one family a file."""
