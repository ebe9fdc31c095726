# SPDX-License-Identifier: BSD-3-Clause
"""The words of tile programs as C++, Python and documentation."""
