# SPDX-License-Identifier: BSD-3-Clause
"""Passes on the graph (graph/) and on the linear program (linear/)."""
