# SPDX-License-Identifier: BSD-3-Clause
"""The driver and the chip's library as Python sees them: ctypes, the C++ extension, dtype codes."""
