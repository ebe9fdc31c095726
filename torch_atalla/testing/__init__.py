# SPDX-License-Identifier: BSD-3-Clause
"""What OpInfo suites need to know about this device, read from the op list and the record of native OpInfos."""

from .opinfo import CHIP_DTYPES, check_sample, op_name, run_strict

__all__ = ["CHIP_DTYPES", "check_sample", "op_name", "run_strict"]
