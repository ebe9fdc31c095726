# SPDX-License-Identifier: BSD-3-Clause
"""`python -m torch_atalla trace script.py -o t.json`: run a script and trace its device work."""

from __future__ import annotations

import argparse
import os
import runpy
import sys

from torch_atalla.telemetry import Recording


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m torch_atalla trace", description="Run a script and write a Chrome trace of its device work."
    )
    parser.add_argument("-o", "--output", default="trace.json", help="trace file to write (default: %(default)s)")
    parser.add_argument("script", help="Python file to run")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="arguments of the script")
    args = parser.parse_args(argv)
    # Also accept -o after the script, as in "trace script.py -o t.json". The script's own -o must follow "--".
    at = args.arguments.index("--") if "--" in args.arguments else len(args.arguments)
    output = argparse.ArgumentParser(add_help=False)
    output.add_argument("-o", "--output", default=args.output)
    known, unknown = output.parse_known_args(args.arguments[:at])
    if not os.path.isfile(args.script):
        parser.error(f"there is no file {args.script}")
    before_argv, before_path = sys.argv, list(sys.path)
    sys.argv = [args.script, *unknown, *args.arguments[at + 1 :]]
    sys.path[0] = os.path.dirname(os.path.abspath(args.script))
    recording = Recording()
    status = 0
    try:
        with recording:
            runpy.run_path(args.script, run_name="__main__")
    except SystemExit as leaving:
        status = leaving.code if isinstance(leaving.code, int) else int(leaving.code is not None)
        if isinstance(leaving.code, str):
            print(leaving.code, file=sys.stderr)
    finally:
        sys.argv, sys.path[:] = before_argv, before_path
        recording.save(known.output)
    done = sum(len(device.work) for device in recording.devices)
    print(f"{known.output}: {done} launches and copies of {len(recording.devices)} devices", file=sys.stderr)
    return status
