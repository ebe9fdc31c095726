# SPDX-License-Identifier: BSD-3-Clause
"""Opens a chip of its own with a chip file, and prints the energy of its memory as one line of JSON.

    python probe.py c_abi.py libatalla_sim.so chip.toml

Runs outside of the package, since its process has no other chip. Exit code 1, with the simulator's reason on stderr,
for a file that it refuses.
"""

import ctypes
import importlib.util
import json
import sys
from typing import Any


def main(abi_file: str, library_file: str, chip_file: str) -> int:
    spec = importlib.util.spec_from_file_location("c_abi", abi_file)
    assert spec is not None and spec.loader is not None
    abi: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(abi)
    library = abi.bind(ctypes.CDLL(library_file))
    api, schedule = ctypes.POINTER(abi.atalla_api)(), ctypes.POINTER(abi.atalla_schedule_api)()
    library.atalla_get_api(1, ctypes.byref(api))
    library.atalla_get_schedule_api(1, ctypes.byref(schedule))
    params = abi.atalla_device_params(ctypes.sizeof(abi.atalla_device_params), 0, 0, chip_file.encode())
    device = ctypes.c_void_p()
    status = api.contents.device_open(ctypes.byref(params), ctypes.byref(device))
    energy = abi.atalla_energy(ctypes.sizeof(abi.atalla_energy))
    status = status or schedule.contents.energy(device, ctypes.byref(energy))
    if status != abi.ATALLA_OK:
        print(api.contents.last_error().decode(), file=sys.stderr)
        return 1
    numbers = {name: getattr(energy, name) for name, *_ in energy._fields_ if name.endswith(("_fj", "_uw"))}
    print(json.dumps(numbers))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
