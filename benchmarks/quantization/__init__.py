# SPDX-License-Identifier: BSD-3-Clause
"""Decoding with weights in 8 and 4 bits: cycles per token and accuracy."""
