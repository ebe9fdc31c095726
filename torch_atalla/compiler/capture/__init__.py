# SPDX-License-Identifier: BSD-3-Clause
"""From a module or an exported program to a functional ATen graph."""
