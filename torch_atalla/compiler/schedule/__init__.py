# SPDX-License-Identifier: BSD-3-Clause
"""Where a program's temporaries lie in DRAM, and the chip that it is for."""

from .chip_model import ChipModel, chip_model

__all__ = ["ChipModel", "chip_model"]
