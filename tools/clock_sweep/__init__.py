# SPDX-License-Identifier: BSD-3-Clause
"""What the device reports against executed code."""
