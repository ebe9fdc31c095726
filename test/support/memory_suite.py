# SPDX-License-Identifier: BSD-3-Clause
"""Shared code of the tests of device memory."""

import gc
import os
import subprocess
import sys
from contextlib import contextmanager

import torch

MIB = 1 << 20


def fresh() -> None:
    gc.collect()
    torch.atalla.synchronize()
    torch.atalla.empty_cache()
    for i in range(torch.atalla.device_count()):
        torch.atalla.reset_peak_memory_stats(i)
        torch.atalla.reset_accumulated_memory_stats(i)


@contextmanager
def settings(text: str):
    torch.atalla.memory._set_allocator_settings(text)
    try:
        yield
    finally:
        torch.atalla.empty_cache()
        torch.atalla.memory._set_allocator_settings("")


def child(code: str, **env: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, env={**os.environ, **env}
    )
