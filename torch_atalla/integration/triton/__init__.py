# SPDX-License-Identifier: BSD-3-Clause
"""The Triton backend, which Triton finds through the entry point group `triton.backends`: compiler.py and driver.py.

docs/guides/triton.md is its guide. Importing this package does not import Triton.
"""
