# SPDX-License-Identifier: BSD-3-Clause
"""What the device reports for whole networks against their executed code, on many chips."""
