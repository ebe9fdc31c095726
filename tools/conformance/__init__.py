# SPDX-License-Identifier: BSD-3-Clause
"""Upstream's device-generic test files, run on the device: `python -m tools.conformance`."""
