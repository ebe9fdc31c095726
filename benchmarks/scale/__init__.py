# SPDX-License-Identifier: BSD-3-Clause
"""Cost against size, with exponents."""
