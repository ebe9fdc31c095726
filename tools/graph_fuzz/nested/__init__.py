# SPDX-License-Identifier: BSD-3-Clause
"""Random programs whose sizes are expressions of symbols."""
