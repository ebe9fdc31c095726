# SPDX-License-Identifier: BSD-3-Clause
"""Native and fallback segments of a graph, and the linear program that they become."""
