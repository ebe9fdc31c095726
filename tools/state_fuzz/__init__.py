# SPDX-License-Identifier: BSD-3-Clause
"""Random orders of compiled calls, captures and loadables under random ambient states, against eager mode."""
