# SPDX-License-Identifier: BSD-3-Clause
"""From an exported program to launches with a memory plan and a schedule."""
