# SPDX-License-Identifier: BSD-3-Clause
"""The chip that generated code is for: the Ax01's vector lanes, and the scratchpad bytes that it uses."""

LANES = 32
SCRATCHPAD_BYTES = 1 << 20
