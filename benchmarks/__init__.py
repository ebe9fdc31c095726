# SPDX-License-Identifier: BSD-3-Clause
"""Eager atalla beside eager CPU: `python -m benchmarks.run`. docs/reference/benchmarks.md explains the numbers."""
