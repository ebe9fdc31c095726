# SPDX-License-Identifier: BSD-3-Clause
"""Lines of csrc that the C++ tests reach."""
