# SPDX-License-Identifier: BSD-3-Clause
"""The linear program and what it consists of: buffers, operands, sizes, kernel contracts."""
