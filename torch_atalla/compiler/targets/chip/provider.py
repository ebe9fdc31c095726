# SPDX-License-Identifier: BSD-3-Clause
"""The clock of the device library: it asks here for the charge of each launch that is new to it."""

from __future__ import annotations

import atexit
import ctypes
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch

from torch_atalla.driver import c_abi, runtime
from torch_atalla.driver.extension import _C


class Provider:
    """reasons: by kernel, why the latest launch of it has no code."""

    def __init__(self) -> None:
        self.reasons: dict[str, str] = {}
        self._function = c_abi.atalla_charge_provider(self._provide)
        self._chips: dict[int, Any] = {}
        self._threads: tuple[int, ThreadPoolExecutor] | None = None

    def set(self, active: bool) -> None:
        """Raises RuntimeError if the device library takes none."""
        if active:  # the interpreter must not be asked when it has ended
            atexit.unregister(self.set)
            atexit.register(self.set, False)
        api = runtime.device_api()
        if api.abi_minor < 6:
            raise RuntimeError(
                f"the device library is of version {api.abi_major}.{api.abi_minor}; expected 1.6 or later"
            )
        api.charge_provider_set(self._function if active else c_abi.atalla_charge_provider(), None)

    def _provide(self, context: Any, ordinal: int, desc: Any, desc_bytes: int, target: Any) -> int:
        """On the thread of the launch, whose modes (of dispatch, autocast and functorch) the compiler must not meet."""
        whole = c_abi.atalla_launch_desc()
        ctypes.memmove(ctypes.byref(whole), desc, min(desc_bytes, ctypes.sizeof(whole)))
        try:
            reason = self._thread().submit(self._write_charge, whole, ordinal, target.contents).result()
        except Exception as error:  # nothing may pass the device library
            reason = f"{type(error).__name__}: {error}"
        if reason:
            self.reasons[_C.kernels()[whole.kernel]] = reason
        return c_abi.ATALLA_ERR_UNSUPPORTED if reason else c_abi.ATALLA_OK

    def _write_charge(self, desc: c_abi.atalla_launch_desc, ordinal: int, target: Any) -> str:
        """Why there is no charge, or ""."""
        from ...schedule.chip_model import chip_model  # imported lazily: at the start of a process nobody compiles
        from .clock import UnknownCost, charge

        if ordinal not in self._chips:
            self._chips[ordinal] = chip_model(_C.chip_config(ordinal))
        try:
            with torch.no_grad():
                charge(desc, self._chips[ordinal], ordinal).write(target)
        except UnknownCost as error:
            return str(error)
        return ""

    def _thread(self) -> ThreadPoolExecutor:
        if self._threads is None or self._threads[0] != os.getpid():  # threads do not survive a fork
            self._threads = os.getpid(), ThreadPoolExecutor(1, "atalla clock")
        return self._threads[1]
