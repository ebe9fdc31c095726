# SPDX-License-Identifier: BSD-3-Clause
"""Triton's own language tests, run on the device: `python -m tools.conformance.triton`."""
