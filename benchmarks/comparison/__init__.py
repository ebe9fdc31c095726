# SPDX-License-Identifier: BSD-3-Clause
"""Two commits of this repository, built and measured in pairs: `make bench-compare BASE=commit`."""
