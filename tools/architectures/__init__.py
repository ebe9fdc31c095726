# SPDX-License-Identifier: BSD-3-Clause
"""Architectures of the transformers package as small models with random weights, and inputs for them."""
