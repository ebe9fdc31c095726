# SPDX-License-Identifier: BSD-3-Clause
"""Runs the C++ tests and C examples: python tools/run_cpp_tests.py [release|asan|tsan|debug] [PREFIX].

Every executable must exit with 0; tests print 'N passed, N failed', and at least MINIMUM checks must have run in all.
The conformance test runs on the simulator, with at least CONFORMANCE checks. With a prefix, only the tests whose names
begin with it run, and there is no minimum in all. A report of a sanitizer fails.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import scipy_openblas32

ROOT = Path(__file__).resolve().parents[1]
MINIMUM = 1_000_000
CONFORMANCE = 420


def main() -> int:
    config = sys.argv[1] if len(sys.argv) > 1 else "release"
    prefix = sys.argv[2] if len(sys.argv) > 2 else ""
    lib = ROOT / ("torch_atalla/lib" if config == "release" else f"build/{config}/lib")
    env = os.environ | {
        "LD_LIBRARY_PATH": str(lib),
        "ATALLA_FAKE_DEVICE": str(ROOT / f"build/{config}/bin/libfake_device.so"),
        "ATALLA_LAPACK": f"{scipy_openblas32.get_lib_dir()}/libscipy_openblas.so",
        "ASAN_OPTIONS": "detect_leaks=0:handle_segv=0:allow_user_segv_handler=1",
        "UBSAN_OPTIONS": "print_stacktrace=1",
    }
    passed, failures = 0, []
    for test in sorted((ROOT / "build" / config / "bin").iterdir()):
        if not test.name.startswith(prefix or "test_"):
            continue
        begin = time.monotonic()
        conformance = test.name == "test_conformance"
        command = [test, lib / "libatalla_sim.so"] if conformance else [test]
        result = subprocess.run(command, env=env, capture_output=True, text=True, timeout=900)
        output = result.stdout + result.stderr
        found = re.findall(r"(\d+) passed, (\d+) failed", output)
        if conformance:
            found = re.findall(r"passed (\d+), failed (\d+)", output)
        passed += sum(int(p) for p, _ in found)
        reports = len(re.findall(r"(?:WARNING: ThreadSanitizer|ERROR: AddressSanitizer|runtime error:)", output))
        ok = result.returncode == 0 and bool(found) and not reports
        ok = ok and (not conformance or int(found[-1][0]) >= CONFORMANCE)
        print(
            f"{'ok  ' if ok else 'FAIL'} {test.name:36} {found[-1] if found else ''} {time.monotonic() - begin:.1f} s"
        )
        if not ok:
            failures.append(test.name)
            print(output[-6000:])
    print(f"{config}: {passed} passed, {len(failures)} failed")
    if not prefix and passed < MINIMUM:
        print(f"expected at least {MINIMUM} checks, ran {passed}")
        return 1
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
