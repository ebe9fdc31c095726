# SPDX-License-Identifier: BSD-3-Clause
"""`python -m torch_atalla compile program.pt2 -o model.atl`: compile exported programs into a loadable."""

from __future__ import annotations

import argparse
import sys
import zipfile
from pathlib import Path

import torch

from torch_atalla.cli.operators import add_import
from torch_atalla.compiler.capture.shared_tensors import tie_equal_buffers
from torch_atalla.compiler.file.save import save_loadable
from torch_atalla.driver import runtime
from torch_atalla.loadable.errors import ExportError

_AS_GIVEN = ("fallback", "engine", "convert", "optimize", "seed", "weights", "dump")  # options of save_loadable


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(
        prog="python -m torch_atalla compile", description="Compile a program saved by torch.export.save."
    )
    result.add_argument(
        "programs",
        nargs="+",
        metavar="[METHOD=]PROGRAM",
        help="program saved by torch.export.save (.pt2); give each of several a method name",
    )
    result.add_argument("-o", "--output", help="loadable to write (default: the first program's name with .atl)")
    result.add_argument(
        "--optimize",
        choices=("none", "exact", "fast"),
        default="exact",
        help="passes to run; exact keeps the bits of eager mode (default: %(default)s)",
    )
    result.add_argument(
        "--fallback",
        choices=("cpu", "error"),
        default="cpu",
        help="for an op without a kernel: run it on the CPU, or refuse the program (default: %(default)s)",
    )
    result.add_argument(
        "--weights", choices=("bfloat16", "int8"), help="dtype of stored matrix weights (default: that of the program)"
    )
    result.add_argument(
        "--engine",
        choices=("functional", "isa"),
        default="functional",
        help="isa adds Atalla code (default: %(default)s)",
    )
    result.add_argument(
        "--convert", choices=("bfloat16",), help="convert a float32 program to this dtype; for --engine isa"
    )
    result.add_argument("--dump", metavar="DIR", help="write the output of every stage and pass to DIR")
    result.add_argument("--seed", type=int, default=0, help="seed of the golden inputs (default: %(default)s)")
    result.add_argument("--no-golden", action="store_true", help="do not store golden outputs")
    result.add_argument("--no-verify", action="store_true", help="write the file without checking it in a trial run")
    add_import(result)
    return result


def main(argv: list[str] | None = None) -> int:
    """Print the report. Return 1, with the reasons on stderr, if a program cannot be read or compiled."""
    options = parser()
    args = options.parse_args(argv)
    named = [_method(text) for text in args.programs]
    names = [name for name, _ in named]
    if len(named) > 1 and (None in names or len(set(names)) < len(names)):
        options.error("several programs: give each a name of its own, as in prefill=a.pt2 decode=b.pt2")
    output = args.output or str(Path(named[0][1]).with_suffix(".atl"))
    try:
        loaded = {name or "forward": _load(path) for name, path in named}
        tie_equal_buffers(loaded)
        report = save_loadable(
            loaded if names[0] is not None else loaded["forward"],
            output,
            verify=not args.no_verify,
            golden=not args.no_golden,
            **{name: getattr(args, name) for name in _AS_GIVEN},
        )
    except (OSError, ExportError, runtime.RuntimeLibraryError) as error:
        print(error, file=sys.stderr)
        return 1
    print(report)
    return 0


def _method(text: str) -> tuple[str | None, str]:
    """Split "name=path" into (name, path). The name is None if it is missing or `text` is an existing path."""
    name, separator, path = text.partition("=")
    return (name, path) if separator and name.isidentifier() and not Path(text).exists() else (None, text)


def _load(path: str) -> torch.export.ExportedProgram:
    if not Path(path).is_file():
        raise ExportError(f"{path}: no such file")
    if not zipfile.is_zipfile(path):
        raise ExportError(f"{path}: expected a program that torch.export.save wrote")
    try:
        return torch.export.load(path)
    except (RuntimeError, ValueError, KeyError, AssertionError) as error:
        raise ExportError(f"{path}: torch.export.load cannot read it: {error}") from None
