# SPDX-License-Identifier: BSD-3-Clause
"""Reports of loadables and of recorded runs: one document, shown by one self-contained page."""
