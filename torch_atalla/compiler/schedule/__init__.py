# SPDX-License-Identifier: BSD-3-Clause
"""Where a program's temporaries lie on the chip, and over how many cores its launches are divided."""

from .chip_model import ChipModel, chip_model
from .decide import decide
from .schedule import Resident, Schedule
from .verify_schedule import verify_schedule

__all__ = ["ChipModel", "Resident", "Schedule", "chip_model", "decide", "verify_schedule"]
