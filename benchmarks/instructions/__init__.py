# SPDX-License-Identifier: BSD-3-Clause
"""Instruction counts of the hot paths under callgrind, recorded in the tree and checked by `make check`."""
