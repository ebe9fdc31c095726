# SPDX-License-Identifier: BSD-3-Clause
"""Random programs through every path of the project; `python -m tools.fuzz_graphs` runs them (docs/testing.md)."""
