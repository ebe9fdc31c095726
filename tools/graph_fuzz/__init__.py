# SPDX-License-Identifier: BSD-3-Clause
"""Random programs through every path of the project (docs/guides/fuzzing.md): `python -m tools.fuzz_graphs`."""
