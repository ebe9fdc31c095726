# SPDX-License-Identifier: BSD-3-Clause
"""What OpInfo suites need: samples on the device, checks against the CPU, the record of native OpInfos."""

from .gradients import GRADIENT_DTYPES, check_gradients
from .opinfo import CHIP_DTYPES, DEVICE_DTYPES, EMULATED_DTYPES, check_sample, op_name, run_on, sample_on
from .properties import tensors
from .record import Native, Record

__all__ = [
    "EMULATED_DTYPES", "CHIP_DTYPES", "DEVICE_DTYPES", "GRADIENT_DTYPES", "Native", "Record", "check_gradients",
    "check_sample", "op_name", "run_on", "sample_on", "tensors",
]  # fmt: skip
