# SPDX-License-Identifier: BSD-3-Clause
"""Loadables: their calls, their loading and their memory, alone and compared with other ahead-of-time compilers."""
