# SPDX-License-Identifier: BSD-3-Clause
"""The shared libraries behind ctypes: the driver's, and the one that stands behind the devices."""

from __future__ import annotations

import ctypes
import os
from functools import lru_cache
from typing import Any

from . import c_abi
from .paths import LIBRARIES


def device_library_path() -> str:
    """The file of the library that stands behind the devices."""
    return os.environ.get("ATALLA_DEVICE_LIBRARY") or str(LIBRARIES / "libatalla_sim.so")


@lru_cache
def device_table(table: type[ctypes.Structure], major: int) -> Any:
    """A table of functions of the device library: `atalla_api` or one of the optional parts. None: it has no such
    part, not in this version, or a part with fewer functions. (Of atalla_api the functions of version 1.0 are used, of
    atalla_isa_api those of version 1.1; callers of later ones check abi_minor.)"""
    library = c_abi.bind(ctypes.CDLL(device_library_path()))
    get = getattr(library, table.__name__.replace("atalla_", "atalla_get_"), None)
    found = ctypes.POINTER(table)()
    if get is None or get(major, ctypes.byref(found)) != c_abi.ATALLA_OK:
        return None
    needed = {c_abi.atalla_api: 0, c_abi.atalla_isa_api: c_abi.atalla_isa_api.machine_set_array.offset}
    complete = found.contents.struct_size >= needed.get(table, ctypes.sizeof(table))
    return found.contents if complete else None
